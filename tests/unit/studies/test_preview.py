from pathlib import Path

import pytest

from maxsup.core.config import Recipe
from maxsup.core.errors import DataError, NonFiniteError
from maxsup.core.recipes import load_recipe
from maxsup.studies import preview as module
from maxsup.studies.preview import preview


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Recipe]:
    """Two runs on data that is there and two on data that is not; a run takes ten seconds."""

    def seconds(group: list[Recipe]) -> float:
        if group[0].data.name == "cifar10":
            raise DataError("data set 'cifar10' must be there; got nothing.")
        return 10.0 * len(group)

    monkeypatch.setattr(module, "estimated_total", seconds)
    words = {"ce": "digits", "ls": "digits", "far": "cifar10", "away": "cifar10"}
    return {name: load_recipe("digits_cnn", [f"data.name={data}"]) for name, data in words.items()}


def test_runs_without_their_data_are_named_and_the_others_counted(recipes: dict[str, Recipe]) -> None:
    found = preview(recipes)
    assert found.seconds == 20.0
    assert found.missing == {"data set 'cifar10' must be there; got nothing.": ["far", "away"]}


def test_data_that_no_run_has_is_one_error(recipes: dict[str, Recipe]) -> None:
    with pytest.raises(DataError, match="data set 'cifar10' must be there"):
        preview({name: recipes[name] for name in ("far", "away")})


def test_other_machines_may_have_the_data(recipes: dict[str, Recipe]) -> None:
    found = preview({name: recipes[name] for name in ("far", "away")}, is_elsewhere=True)
    assert found.missing == {"data set 'cifar10' must be there; got nothing.": ["far", "away"]}


def test_a_run_that_cannot_begin_for_another_reason_is_not_the_end_of_the_others(
    recipes: dict[str, Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(group: list[Recipe]) -> float:
        raise NonFiniteError("loss must be finite; got nan.")

    monkeypatch.setattr(module, "estimated_total", fails)
    found = preview(recipes)
    assert (found.obstacle, found.missing) == ("loss must be finite; got nan.", {})


def test_real_data_that_is_missing_is_found_without_training(tmp_path: Path) -> None:
    recipe = load_recipe("cifar10_quick", [f"data.root={tmp_path}"])
    with pytest.raises(DataError, match="data set 'cifar10' must be at"):
        preview({"ce": recipe, "ls": recipe})
