from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import corruption
from maxsup.lab.analysis.analyses.corruption import batch_calibration_error, final_objective
from maxsup.lab.analysis.extraction import limited
from maxsup.lab.data import CORRUPTIONS, SEVERITIES, corrupt
from maxsup.metrics import expected_calibration_error
from tests.unit.lab.analysis.made import make_run

pytestmark = pytest.mark.slow


def test_the_published_calibration_error_is_a_mean_over_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(250, 6, generator=generator)
    labels = torch.distributions.Categorical(logits=logits).sample()
    parts = [expected_calibration_error(logits[a:b], labels[a:b]) for a, b in ((0, 100), (100, 200), (200, 250))]
    assert batch_calibration_error(logits, labels) == pytest.approx(sum(parts) / 3)
    # The labels are drawn from the probabilities themselves, and still it is far from 0.
    assert batch_calibration_error(logits, labels) > 0.06


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("loss.name=ce", lambda ce, z, y: ce),
        ("loss={name: ls, alpha: 0.2}", lambda ce, z, y: F.cross_entropy(z, y, label_smoothing=0.2)),
        (
            "loss={name: maxsup, alpha: {schedule: linear, start: 0.1, end: 0.3}}",
            lambda ce, z, y: ce + 0.3 * (z.max(dim=1).values - z.mean(dim=1)).mean(),
        ),
    ],
)
def test_the_published_likelihood_is_the_training_objective_at_the_end(
    digit_runs: list[Path], loss: str, expected: object
) -> None:
    run = RunOutputs(digit_runs[0], overrides=[loss])
    objective = final_objective(run)
    logits, labels = torch.randn(20, 10), torch.arange(20) % 10
    assert objective is not None
    value = expected(F.cross_entropy(logits, labels), logits, labels)  # type: ignore[operator]
    assert float(objective(logits, labels)) == pytest.approx(float(value), rel=1e-5)


@pytest.mark.parametrize("loss", ["ols", "adaptive_ls"])
def test_an_objective_that_needs_more_than_logits_is_not_made_up(digit_runs: list[Path], loss: str) -> None:
    assert final_objective(RunOutputs(digit_runs[0], overrides=[f"loss.name={loss}"])) is None


def test_every_cell_is_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [RunOutputs(make_run(tmp_path / loss, loss)) for loss in ("ce", "maxsup")]
    made = []
    original = corruption.corrupted_versions

    def counted(*arguments: object) -> object:
        for cell in original(*arguments):
            made.append(cell[0])
            yield cell

    monkeypatch.setattr(corruption, "corrupted_versions", counted)
    corruption.share(runs, split="test", num_images=40)
    results = [corruption.compute(run, split="test", num_images=40) for run in runs]
    # Images are corrupted once for both runs, and what is kept serves the next call.
    assert len(made) == 75
    table = results[0]["data"]["cells"]
    wanted = [(name, severity) for name in CORRUPTIONS for severity in SEVERITIES]
    assert [(cell["corruption"], cell["severity"]) for cell in table] == wanted
    for name in ("error", "nll", "ece", "published_ece"):
        mean = sum(cell[name] for cell in table) / 75
        assert results[0]["numbers"][name]["value"] == pytest.approx(mean)
    # Cross-entropy is its own objective; MaxSup's is larger than its likelihood.
    numbers = [result["numbers"] for result in results]
    assert numbers[0]["published_nll"]["value"] == pytest.approx(numbers[0]["nll"]["value"], rel=1e-5)
    assert numbers[1]["published_nll"]["value"] > numbers[1]["nll"]["value"]
    assert numbers[1]["published_nll"]["unit"] == "training objective"


def test_a_cell_holds_the_corrupted_images(tmp_path: Path) -> None:
    run = RunOutputs(make_run(tmp_path / "run"))
    found = corruption.read_cells(run, "test", 30)
    used = limited(run.bundle.test, 30)
    place = list(zip(found.names, found.severities, strict=True)).index(("contrast", 5))
    images = corrupt(used.images, "contrast", 5).float() / 255
    with torch.no_grad():
        expected = run.model((images - run.bundle.mean[0]) / run.bundle.std[0])
    torch.testing.assert_close(found.logits[place], expected, rtol=1e-3, atol=1e-3)
    assert torch.equal(found.labels[place], used.labels)
    assert 25 <= len(used) <= 35


def test_images_in_files_are_an_obstacle(tmp_path: Path) -> None:
    from tests.integration.runs import image_folder

    folder = image_folder(tmp_path / "images", per_class=6)
    overrides = (
        f"data.name=folder:{folder}",
        "data.image_size=8",
        "model.options.widths=[4]",
        "augment.crop_padding=0",
    )
    run = RunOutputs(make_run(tmp_path / "run", "ce", *overrides))
    assert "must be in memory" in str(corruption.obstacle(run, split="test"))
