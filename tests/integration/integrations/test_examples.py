"""The examples with a criterion of torch: they learn, and their first loss is that of the plain loop."""

from typing import Any

import pytest

from tests.integration.integrations.captured import reference_mean, run_example

SHORT = {"num_epochs": 3, "enable_progress_bar": False}
CASES = [
    ("accelerate_training", "accelerate", {}, 2),
    ("fsdp_training", "torch", {}, 1),
    ("lightning_training", "lightning", SHORT, 1),
    ("timm_criterion", "timm", {}, 1),
    ("segmentation_smp", "segmentation_models_pytorch", {"num_steps": 8}, 1),
]


@pytest.mark.parametrize(
    ("name", "library", "options", "num_parts"),
    [("plain_torch", "torch", {}, 1), *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES)],
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("fresh_accelerate")
def test_an_example_learns_and_starts_from_the_reference(
    name: str, library: str, options: dict[str, Any], num_parts: int
) -> None:
    pytest.importorskip(library)
    losses, calls = run_example(name, **options)
    first = [call for call in calls if call.is_training][:num_parts]
    assert losses[0] == pytest.approx(reference_mean(*first), abs=1e-5)
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])
    if name == "timm_criterion":
        assert first[0].target.is_floating_point()
    if name == "segmentation_smp":
        assert (first[0].target == 255).float().mean() > 0.1


@pytest.mark.slow
def test_the_example_with_two_heads_adds_half_the_auxiliary_loss() -> None:
    losses, (main, auxiliary, *_) = run_example("torchvision_segmentation", num_steps=8)
    assert losses[0] == pytest.approx(reference_mean(main) + 0.5 * reference_mean(auxiliary), abs=1e-5)
    assert losses[-1] < 0.6 * losses[0]
