import sys
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from maxsup.lab.core.config import LossConfig, ModelConfig, Recipe
from maxsup.lab.experiments.imports import import_all, imports_of, parts_only_here
from maxsup.lab.models import MODELS, model_name


def net(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


def recipe_with(model: Any) -> Recipe:
    return Recipe(model=ModelConfig(name=model_name(model)))


def test_what_the_package_has_need_not_be_imported() -> None:
    assert imports_of(Recipe(loss=LossConfig(name="ls"))) == []
    assert parts_only_here(Recipe(data={"name": "folder:photos"}, model={"name": "timm:resnet18"})) == []


def test_a_function_in_a_module_is_found_by_its_place() -> None:
    [entry] = imports_of(recipe_with(net))
    root = Path(__file__).resolve().parents[4]
    assert entry == {"folder": str(root), "module": __name__, "name": "net", "kind": "factory"}
    assert parts_only_here(recipe_with(net)) == []


def test_a_lambda_and_a_function_within_another_are_known_to_this_process_only() -> None:
    def inner(num_classes: int) -> nn.Module:
        return nn.Linear(3, num_classes)

    for factory in (inner, lambda count: nn.Linear(4, count)):
        recipe = recipe_with(factory)
        assert parts_only_here(recipe) == [recipe.model.name]
        assert imports_of(recipe) == []


def test_what_a_script_defines_is_known_to_this_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "__module__", "__main__")
    assert parts_only_here(recipe_with(net)) == [model_name(net)]


def test_a_module_beside_the_script_is_imported_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n\ndef small(num_classes):\n    return nn.Sequential(nn.Linear(9, num_classes))\n"
    )
    before = set(MODELS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    import_all([{"folder": str(tmp_path), "module": "my_nets", "name": "small", "kind": "factory"}])
    [name] = set(MODELS) - before
    assert name.startswith("python:small-")
    [entry] = imports_of(Recipe(model=ModelConfig(name=name)))
    assert entry["folder"] == str(tmp_path.resolve())
