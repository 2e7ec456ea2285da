from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from maxsup.core.errors import DataError, MaxsupError
from maxsup.lab.analysis import RunOutputs, outputs
from maxsup.lab.analysis.extraction import affine_head
from maxsup.lab.data import load_data
from maxsup.lab.models import CausalNormHead, Classifier
from tests.unit.lab.analysis.made import NO_TEMPLATES, make_run, plain_images


@pytest.fixture
def num_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Samples of every forward pass of any model."""
    seen: list[int] = []
    original = Classifier.feature_map

    def counted(self: Classifier, images: torch.Tensor) -> torch.Tensor:
        seen.append(len(images))
        return original(self, images)

    monkeypatch.setattr(Classifier, "feature_map", counted)
    return seen


def test_a_split_is_passed_through_the_network_once(tmp_path: Path, num_passes: list[int]) -> None:
    path = make_run(tmp_path / "run")
    num_passes.clear()
    first = RunOutputs(path)
    found = first.split("test")
    assert sum(num_passes) == 359
    assert first.split("test") is found
    assert first.weight is not None
    again = RunOutputs(path).split("test")
    assert sum(num_passes) == 359
    assert torch.equal(again.logits, found.logits)
    assert torch.equal(again.features, found.features)
    assert again.class_names == tuple("0123456789")


def test_other_weights_are_never_taken_for_the_kept_ones(tmp_path: Path, num_passes: list[int]) -> None:
    path = make_run(tmp_path / "run", "ls")
    before = RunOutputs(path).split("test").logits
    make_run(tmp_path / "run", "ls", "seed=5")
    # The first checkpoint keeps its name; what is compared is its content.
    assert not torch.equal(RunOutputs(path).split("test").logits, before)


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    before = RunOutputs(path).split("test").logits
    [kept] = (path / "outputs").iterdir()
    assert kept.name == "digits-test-last.safetensors"
    kept.write_bytes(kept.read_bytes()[:200])
    assert torch.equal(RunOutputs(path).split("test").logits, before)


def test_outputs_are_those_of_the_network_on_plain_images_of_the_training_split(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    assert run.recipe.augment.crop_padding == 1
    found = run.split("train")
    images = plain_images(run.recipe, run.bundle, run.bundle.train)
    with torch.no_grad():
        torch.testing.assert_close(found.logits, run.model(images), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found.features, run.model.features(images), rtol=1e-5, atol=1e-5)
    assert torch.equal(found.labels, run.bundle.train.labels)
    assert torch.equal(found.indices, torch.arange(len(images)))


def test_head_times_features_are_the_logits(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[1])
    found = run.split("test")
    assert run.weight is not None
    assert run.bias is not None
    torch.testing.assert_close(found.features @ run.weight.T + run.bias, found.logits, rtol=1e-4, atol=1e-4)


def test_a_scaled_head_is_affine_and_a_normalised_one_is_not() -> None:
    class Scaled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input) / 9

    head = Scaled(5, 3)
    weight, bias = affine_head(head, 5) or (torch.empty(0), torch.empty(0))
    torch.testing.assert_close(weight, head.weight.detach() / 9, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(bias, head.bias.detach() / 9, rtol=1e-4, atol=1e-6)
    assert affine_head(CausalNormHead(6, 3), 6) is None


def test_a_run_without_templates_says_so(tmp_path: Path) -> None:
    run = RunOutputs(make_run(tmp_path / "tde", "ce", *NO_TEMPLATES))
    assert run.weight is None
    assert run.bias is None


def test_of_a_large_split_an_equal_share_of_every_class_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "MAX_IMAGES", 100)
    run = RunOutputs(make_run(tmp_path / "run"))
    found = run.split("test")
    assert 90 <= len(found) <= 110
    counts, whole = (torch.bincount(labels) for labels in (found.labels, run.bundle.test.labels))
    assert ((counts - whole * 100 / 359).abs() <= 1).all()
    assert torch.equal(run.bundle.test.labels[found.indices], found.labels)


def test_other_data_gets_size_channels_and_normalisation_of_the_run(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    colours = generator.integers(0, 256, (40, 20, 20, 3), dtype=np.uint8)
    np.savez(
        tmp_path / "other.npz",
        train_images=colours,
        train_labels=np.arange(40) % 2,
        test_images=colours[:6],
        test_labels=np.arange(6) % 2,
    )
    run = RunOutputs(make_run(tmp_path / "run"), overrides=[f"data.root={tmp_path}"])
    found = run.split("test", "arrays:other.npz")
    assert found.features is not None
    grey = torch.from_numpy(np.rint(colours[:6] @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)).unsqueeze(1)
    small = nn.functional.interpolate(grey, (8, 8), mode="bilinear", antialias=True, align_corners=False)
    images = (small.float() / 255 - run.bundle.mean[0]) / run.bundle.std[0]
    with torch.no_grad():
        torch.testing.assert_close(found.features, run.model.features(images), rtol=1e-3, atol=2e-2)
    assert found.class_names == ("0", "1")
    assert {path.name.split("-")[0] for path in (tmp_path / "run" / "outputs").iterdir()} == {"arrays"}


def test_grey_data_is_shown_to_a_colour_model_three_times(drawn_run: Path) -> None:
    run = RunOutputs(drawn_run)
    suited = run.data("digits")
    assert suited.test.images.shape[1:] == (3, 8, 8)
    assert torch.equal(suited.test.images[:, :1], load_data("digits").test.images)
    assert suited.mean == run.bundle.mean
    assert len(run.split("test", "digits")) == 359


def test_a_split_that_was_not_held_out_is_refused_in_one_sentence(tmp_path: Path) -> None:
    run = RunOutputs(make_run(tmp_path / "run", "ce", "data.val_share=0"))
    assert not run.has_val
    with pytest.raises(DataError, match="val split of 'digits' must have at least one image"):
        run.split("val")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MaxsupError, match="must be a directory that maxsup train made"):
        RunOutputs(tmp_path)
