"""From images with masks to numbers and pictures, as a user gets there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import Interruption
from maxsup.lab.analysis import analyze
from maxsup.lab.cli import main
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.core.recipes import load_recipe, read_yaml
from maxsup.lab.data import load_data
from maxsup.lab.training import evaluate_run
from maxsup.lab.training.builders import build_model
from maxsup.lab.training.state.checkpoint import read_tensors
from tests.integration.cards import exported, loaded
from tests.integration.command import Outcome
from tests.integration.integrations.launch import run_two_ranks
from tests.integration.runs import StopAt, train_quietly, what_is_kept
from tests.unit.lab.data import made

pytestmark = pytest.mark.slow

TINY_BACKBONE = "model.options={backbone: resnet10t, channels: 16, auxiliary_channels: 8}"
FEW_IMAGES = "data.options={by_digit: false, num_train: 60, num_test: 8}"
QUICK = [FEW_IMAGES, "iterations=40", "epochs=2", "batch_size=4", "optimizer.lr=0.005"]
SHORT = ["iterations=8", "schedule.warmup_iterations=2"]


def quick_recipe(*overrides: str) -> Recipe:
    return load_recipe("synthetic_upernet", [*QUICK, TINY_BACKBONE, *overrides])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segmenter that was trained for a few seconds."""
    output = tmp_path_factory.mktemp("segmenter") / "run"
    train_quietly(quick_recipe(), output)
    return output


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier whose backbone can be fine-tuned."""
    output = tmp_path_factory.mktemp("classifier") / "run"
    words = ["epochs=1", "data.options.copies=1", "model.name=resnet10t", "seed=4"]
    train_quietly(load_recipe("synthetic_cnn", words), output)
    return output


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs of four steps, never cut."""
    output = tmp_path_factory.mktemp("short") / "run"
    train_quietly(quick_recipe(*SHORT), output)
    return output


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """``maxsup`` with some words, in this process: torch is imported once for all of them."""

    def run_words(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as leaving:
            main(words)
        return Outcome(leaving.value.code or 0, *capsys.readouterr())

    return run_words


def last_numbers(run: Path) -> dict[str, float]:
    return json.loads((run / "summary.json").read_text())["test"]["last"]


def analyzed(run: Path, output: Path, **options: Any) -> tuple[dict[str, Any], list[Path]]:
    """What the analysis of masks found, and its files."""
    done = analyze([run], ["segmentation"], output=output, options={"segmentation": options})
    [result] = done.results["segmentation"].values()
    return result, done.files


def test_a_few_seconds_of_training_beat_the_commonest_class(run: Path) -> None:
    numbers = last_numbers(run)
    assert numbers["miou"] > numbers["majority_miou"] + 0.15
    assert numbers["n"] == 8
    assert {"accuracy", "class_accuracy", "nll"} <= numbers.keys()


def test_the_best_epoch_is_the_one_with_the_best_miou(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    best = max(range(len(lines)), key=lambda epoch: lines[epoch]["val"]["miou"])
    assert json.loads((run / "summary.json").read_text())["best_epoch"] == best
    assert [line["step"] for line in lines] == [20, 40]


@pytest.mark.parametrize("cut", [2, 5])
def test_a_cut_run_ends_bit_equal(cut: int, short_run: Path, tmp_path: Path) -> None:
    with pytest.raises(Interruption):
        train_quietly(quick_recipe(*SHORT), tmp_path / "run", StopAt(cut))
    train_quietly(quick_recipe(*SHORT), tmp_path / "run")
    assert what_is_kept(tmp_path / "run") == what_is_kept(short_run)


def test_accumulated_pieces_make_the_same_step(tmp_path: Path) -> None:
    # Batch norms see the pieces; with their statistics frozen and no dropout nothing else may differ.
    words = ["iterations=2", "epochs=1", "batchnorm=frozen", "optimizer.lr=1e-4", "optimizer.name=sgd"]
    words += ["model.options.dropout=0", "model.options.backbone=resnet10t"]
    for pieces in (1, 2):
        train_quietly(quick_recipe(*words, f"accumulation={pieces}"), tmp_path / str(pieces))
    one, two = (read_tensors(tmp_path / str(count) / "checkpoints/last/model.safetensors") for count in (1, 2))
    for name, value in one.items():
        torch.testing.assert_close(
            two[name], value, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_maxsup_trains_pixels_too(tmp_path: Path) -> None:
    summary = train_quietly(quick_recipe("loss.name=maxsup", "loss.alpha=0.1"), tmp_path / "run")
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert summary["test"]["last"]["miou"] > summary["test"]["last"]["majority_miou"] + 0.1
    assert line["alpha"] == 0.1
    assert line["decomposition"]["num_samples"] > 0


def test_eval_prints_the_numbers_of_the_summary(run: Path, command: Callable[..., Outcome]) -> None:
    done = command("eval", str(run))
    numbers = last_numbers(run)
    assert done.code == 0, done.err
    assert f"mIoU            {100 * numbers['miou']:.2f} %" in done.out
    assert f"commonest class everywhere: {100 * numbers['majority_miou']:.2f} %" in done.out


def test_a_sliding_window_can_take_the_place_of_whole_images(run: Path) -> None:
    whole, slid = (
        evaluate_run(run, overrides=words)
        for words in ([], ["dense.evaluation=slide", "dense.stride=40", "data.image_size=48"])
    )
    assert abs(slid["miou"] - whole["miou"]) < 0.2
    assert slid["miou"] != whole["miou"]


def test_the_analysis_repeats_the_evaluation_and_adds_views_and_pictures(run: Path, tmp_path: Path) -> None:
    result, files = analyzed(run, tmp_path, scales=[0.75, 1.0], flip=True)
    numbers = last_numbers(run)
    assert result["numbers"]["miou"]["value"] == pytest.approx(numbers["miou"], abs=1e-12)
    assert result["data"]["num_views"] == 4
    # Classes and pictures are those of all views.
    several = result["numbers"]["miou_multiscale"]["value"]
    assert several != result["numbers"]["miou"]["value"]
    assert np.mean(result["data"]["class_iou"]) == pytest.approx(several, abs=1e-9)
    assert len(result["data"]["cells"]) == 4
    figures = {path.name.partition("-flip=True-scales=")[0] for path in files if path.suffix == ".png"}
    assert figures == {"segmentation-test", "segmentation-classes-test"}


def test_one_scale_in_the_analysis_adds_nothing(run: Path, tmp_path: Path) -> None:
    result, _ = analyzed(run, tmp_path, scales=[1.0])
    assert "miou_multiscale" not in result["numbers"]
    assert np.mean(result["data"]["class_iou"]) == pytest.approx(result["numbers"]["miou"]["value"], abs=1e-9)


def test_another_scale_alone_is_no_ordinary_evaluation(run: Path, tmp_path: Path) -> None:
    result, _ = analyzed(run, tmp_path, scales=[0.5])
    numbers = result["numbers"]
    assert (result["data"]["num_views"], result["data"]["scales"]) == (1, [0.5])
    assert numbers["miou_multiscale"]["value"] != numbers["miou"]["value"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        *(
            ("scales", value, "scales must be single, multi or factors")
            for value in ("both", 1.5, ["a"], [0.0, 1.0], [float("inf")], [])
        ),
        ("num_images", -1, "num_images must be a whole number of at least 0"),
    ],
)
def test_options_of_the_analysis_that_cannot_be_are_refused(
    option: str, value: Any, message: str, run: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        analyzed(run, tmp_path, **{option: value})


def test_analyses_of_whole_images_say_why_they_do_not_apply(run: Path, tmp_path: Path) -> None:
    done = analyze([run], ["collapse", "segmentation"], output=tmp_path)
    assert list(done.results) == ["segmentation"]
    [sentence] = done.skipped
    assert "it is a run of segmentation" in sentence


def test_a_classifier_is_fine_tuned_with_its_backbone_and_its_seed(classifier: Path, tmp_path: Path) -> None:
    options = {"recipe": "synthetic_upernet", "overrides": [FEW_IMAGES, "iterations=8", "epochs=1", "batch_size=4"]}
    result, _ = analyzed(classifier, tmp_path, **options)
    [folder] = (classifier / "segmentation").iterdir()
    recipe = parse_recipe(read_yaml(folder / "config.yaml"))
    assert recipe.seed == 4
    assert recipe.model.options["backbone"] == "resnet10t"
    assert result["data"]["trained_with"] == "ce"
    bundle = load_data("synthetic_masks", **recipe.data.options)
    start = build_model(recipe, bundle).state_dict()
    trained = read_tensors(classifier / "checkpoints/last/model.safetensors")
    name = "conv1.0.weight"
    torch.testing.assert_close(start[f"backbone.body.{name}"], trained[f"body.{name}"], rtol=0, atol=0)
    before = (folder / "summary.json").stat().st_mtime_ns
    analyzed(classifier, tmp_path, **options)
    assert (folder / "summary.json").stat().st_mtime_ns == before


def test_a_classifier_without_a_recipe_is_left_out_with_a_reason(classifier: Path, tmp_path: Path) -> None:
    done = analyze([classifier], ["segmentation"], output=tmp_path)
    assert done.results == {}
    assert "segmentation.recipe=" in done.skipped[0]


def test_a_card_says_how_a_segmenter_is_loaded(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exported(run, "--output", str(tmp_path / "card")) == 0
    assert "image-segmentation" in (tmp_path / "card" / "README.md").read_text()
    assert loaded(tmp_path / "card", monkeypatch)(torch.zeros(2, 3, 32, 32)).shape == (2, 2, 32, 32)


def test_a_recipe_for_a_segmenter_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"segmentation\.recipe must be given for a classifier only"):
        analyzed(run, tmp_path, recipe="synthetic_upernet")


def test_fewer_images_than_pictures_are_each_shown_once(run: Path, tmp_path: Path) -> None:
    result, _ = analyzed(run, tmp_path, num_images=20)
    assert result["data"]["indices"] == list(range(8))


def test_runs_with_other_classes_are_drawn_apart(run: Path, tmp_path: Path) -> None:
    words = ["data.options={num_train: 20, num_test: 4}", "iterations=2", "epochs=1", "schedule.warmup_iterations=0"]
    train_quietly(quick_recipe(*words), tmp_path / "digits")
    done = analyze([run, tmp_path / "digits"], ["segmentation"], output=tmp_path / "out")
    names = {path.name for path in done.files if path.suffix == ".png"}
    assert names == {
        *("segmentation-test.png", "segmentation-2-test.png"),
        *("segmentation-classes-test.png", "segmentation-classes-2-test.png"),
    }


def test_a_report_of_a_run_on_masks_has_its_miou(run: Path, tmp_path: Path, command: Callable[..., Outcome]) -> None:
    done = command("report", str(run), "--output", str(tmp_path))
    numbers = last_numbers(run)
    assert done.code == 0, done.err
    table = (tmp_path / "tables" / "results.md").read_text()
    assert "mIoU" in table
    assert f"{100 * numbers['miou']:.2f}" in table
    assert "ECE" not in table


def test_a_batch_without_a_labelled_pixel_changes_nothing_but_what_decays(tmp_path: Path) -> None:
    home = tmp_path / "streets"
    made.write_masked_tree(home)
    (home / "classes.txt").write_text("road\nsky\ntree\n")
    for path in (home / "train" / "masks").iterdir():
        Image.fromarray(np.full((40, 48), 255, dtype=np.uint8)).save(path)
    words = [f"data.name=folder:{home}", "data.image_size=32", "data.val_share=0", TINY_BACKBONE, "iterations=2"]
    words += ["epochs=1", "batch_size=4", "optimizer.weight_decay=0", "schedule.warmup_iterations=0"]
    recipe = load_recipe("synthetic_upernet", words)
    assert train_quietly(recipe, tmp_path / "run")["steps"] == 2
    trained = read_tensors(tmp_path / "run/checkpoints/last/model.safetensors")
    start = build_model(recipe, load_data(f"folder:{home}", val_share=0)).state_dict()
    for name, value in start.items():
        if "running_" not in name and "num_batches" not in name:
            torch.testing.assert_close(trained[name], value, rtol=0, atol=0)


def test_a_last_batch_of_one_image_is_refused_before_training(tmp_path: Path) -> None:
    words = ["iterations=null", "epochs=1", "schedule.warmup_iterations=0", "batch_size=53"]
    with pytest.raises(ValueError, match=r"the last batch must have 2 images for each of 1 processes; got 1"):
        train_quietly(quick_recipe(*words), tmp_path / "run")


def test_a_target_is_read_with_the_options_that_are_given_for_it(classifier: Path, tmp_path: Path) -> None:
    overrides = [FEW_IMAGES, "iterations=2", "epochs=1", "batch_size=4", "schedule.warmup_iterations=0"]
    options = {"recipe": "camvid_upernet", "target": "synthetic_masks", "overrides": overrides}
    result, _ = analyzed(classifier, tmp_path, **options)
    assert result["data"]["images"] == "synthetic_masks"
    assert result["data"]["class_names"] == ["background", "digit"]


@pytest.mark.distributed
def test_two_processes_train_and_evaluate_what_one_does(tmp_path: Path) -> None:
    words = ["iterations=4", "epochs=1", "batchnorm=frozen", "optimizer.name=sgd", "optimizer.lr=1e-3"]
    words += ["model.options.dropout=0"]
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps(quick_recipe(*words).model_dump(mode="json")))
    train_quietly(quick_recipe(*words), tmp_path / "one")
    run_two_ranks("maxsup", "train", recipe, "--output", tmp_path / "two")
    one, two = (read_tensors(tmp_path / name / "checkpoints/last/model.safetensors") for name in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-4, atol=1e-6)
    results = [last_numbers(tmp_path / name) for name in ("one", "two")]
    assert results[1] == pytest.approx(results[0], abs=1e-4)
