from pathlib import Path

import pytest

from maxsup.core.errors import DataError, StorageError
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.experiments.forecast import preview
from tests.unit.lab.data import made

QUICK = ["model.options.widths=[4, 8]", "batch_size=32"]
BROKEN = ["loss.name=logit_penalty", "loss.beta=1e30"]


@pytest.fixture
def recipes(tmp_path: Path) -> dict[str, Recipe]:
    """Two runs on data that is there and two on data that is not."""
    words = {"ce": "digits", "ls": "digits", "far": "cifar10", "away": "cifar10"}
    return {
        name: load_recipe("digits_cnn", [f"data.name={data}", f"data.root={tmp_path}", f"seed={seed}", *QUICK])
        for seed, (name, data) in enumerate(words.items())
    }


def test_runs_without_their_data_are_named_and_the_others_timed(recipes: dict[str, Recipe]) -> None:
    found = preview(recipes)
    assert found.seconds
    assert 0 < found.seconds < 600
    [(sentence, names)] = found.missing.items()
    assert "data set 'cifar10' must be at" in sentence
    assert names == ["far", "away"]


def test_data_that_no_run_has_is_one_error_unless_other_machines_have_it(recipes: dict[str, Recipe]) -> None:
    away = {name: recipes[name] for name in ("far", "away")}
    with pytest.raises(DataError, match="data set 'cifar10' must be at"):
        preview(away)
    found = preview(away, is_elsewhere=True)
    assert (found.seconds, list(found.missing.values())) == (None, [["far", "away"]])


def test_a_loss_that_fails_at_its_first_step_is_named_and_is_not_the_end_of_the_others() -> None:
    runs = {"ce": load_recipe("digits_cnn", [*QUICK, "loss.name=ce"]), "odd": load_recipe("digits_cnn", QUICK + BROKEN)}
    found = preview(runs)
    [(sentence, names)] = found.failing.items()
    assert "must be finite" in sentence
    assert names == ["odd"]
    assert found.seconds


def test_what_fails_for_all_runs_is_raised_before_the_first(tmp_path: Path) -> None:
    runs = {
        loss: load_recipe("digits_cnn", [*QUICK, f"loss.name={loss}", f"model.pretrained={tmp_path / 'none'}"])
        for loss in ("ce", "ls")
    }
    with pytest.raises(StorageError, match="pretrained must be a file that is there"):
        preview(runs)


def test_an_epoch_of_one_step_is_timed_too(tmp_path: Path) -> None:
    made.write_tree(tmp_path, counts={"train": 3, "test": 1})
    recipe = load_recipe("folder_finetune", [f"data.name=folder:{tmp_path}", "data.num_workers=0", "data.image_size=8"])
    small = recipe.model_copy(update={"model": load_recipe("digits_cnn").model})
    assert (preview({"ce": small}).seconds or 0) > 0


def test_an_analysis_that_will_fail_is_said_before_the_first_run() -> None:
    asked = {"calibration": {}, "collapse": {}, "gradcam": {}, "projection": {"classes": ["no such class"]}}
    found = preview({"ce": load_recipe("digits_cnn", QUICK)}, analyses=asked)
    assert list(found.analyses) == ["projection"]
    assert "no such class" in found.analyses["projection"]
