"""Every recipe of the package: explained, valid, and two steps of it run from data to summary."""

import json
import math
from pathlib import Path

import pytest

from maxsup.lab.core.config import Recipe
from maxsup.lab.core.recipes import FOLDER, describe_recipes, list_recipes, load_recipe
from maxsup.lab.training import train
from maxsup.lab.training.preflight.check import check_recipe
from maxsup.lab.training.progress import Reporter
from tests.contract.recipe_data import MAKERS

# The batch that makes two steps of the few images; a smaller batch is the only thing that is shrunk for all.
BATCH_SIZES = {
    "imagenet": 2,
    "folder": 2,
    "cifar10": 5,
    "cifar10_lt": 20,
    "cifar100": 50,
    "cub200": 2,
    "flowers102": 2,
    "stanford_cars": 2,
    "digits": 700,
    "synthetic": 1000,
    "ade20k": 2,
    "camvid": 2,
    "synthetic_masks": 2,
}
# No network in tests; one epoch; no further processes; float32, because a CPU without bfloat16 instructions takes a
# minute for a step of DeiT in it. Where a step of the real size still takes more than a few seconds on one busy core,
# the images are made smaller and the same network sees them.
CHANGES = ["epochs=1", "data.num_workers=0", "model.pretrained=false", "precision=float32"]
SMALLER = {
    # Crops keep their 512 pixels; the decoder, which takes most of the time there, is narrower.
    "ade20k_upernet_deit_small": ["dense.resize=64", "model.options.channels=64"],
    "cifar100_resnet": ["data.image_size=16"],
    "cifar10c_resnet50": ["data.image_size=16"],
}


def small_recipe(name: str, root: Path) -> Recipe:
    kind = load_recipe(name).data.name.partition(":")[0]
    root.mkdir()
    MAKERS[kind](root)
    words = [*CHANGES, *SMALLER.get(name, []), f"data.root={root}", f"batch_size={BATCH_SIZES[kind]}"]
    if load_recipe(name).iterations is not None:
        words += ["iterations=2", "schedule.warmup_iterations=1"]
    return load_recipe(name, words)


def test_the_segmentation_recipe_keeps_its_crops_in_this_test(tmp_path: Path) -> None:
    recipe = small_recipe("ade20k_upernet_deit_small", tmp_path / "data")
    assert (recipe.data.image_size, recipe.model.options["backbone"]) == (512, "deit_small_patch16_224")


@pytest.mark.slow
@pytest.mark.parametrize("name", list_recipes())
def test_two_steps_run_end_to_end(name: str, tmp_path: Path) -> None:
    summary = train(small_recipe(name, tmp_path / "data"), tmp_path / "run", name=name, reporter=Reporter())
    [line] = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert summary["steps"] == 2
    assert line["step"] == 2
    assert math.isfinite(line["train"]["loss"])
    for weights in ("last", "best"):
        assert summary["test"][weights]["n"] > 0
        assert math.isfinite(summary["test"][weights]["nll"])
        assert (tmp_path / "run/checkpoints" / weights / "model.safetensors").is_file()


def test_all_recipes_were_seen() -> None:
    assert len(list_recipes()) >= 23
    assert {load_recipe(name).data.name.partition(":")[0] for name in list_recipes()} == set(MAKERS) == set(BATCH_SIZES)


@pytest.mark.parametrize("name", list_recipes())
def test_a_recipe_says_what_is_stated_inferred_and_chosen(name: str) -> None:
    text = (FOLDER / f"{name}.yaml").read_text()
    comment = text[: text.index("\ndata:")]
    assert all(line.startswith("#") for line in comment.splitlines())
    for label in ("# Group: ", "# Command: ", "# Expect: ", "# The paper states: ", "# Inferred: ", "# Chosen here: "):
        assert comment.count(label) == 1, label
    assert f"train {name}" in comment


@pytest.mark.parametrize("name", list_recipes())
def test_a_recipe_is_valid(name: str) -> None:
    assert check_recipe(load_recipe(name))["num_parameters"] > 1000


def test_every_recipe_is_listed_with_its_command_and_what_to_expect() -> None:
    rows = describe_recipes()
    assert sorted(row["name"] for row in rows) == list_recipes()
    assert rows[0]["name"] == "digits_cnn"
    assert all(set(row) == {"name", "title", "group", "command", "expect"} and all(row.values()) for row in rows)
    assert [row["name"] for row in rows if not row["expect"].endswith(".") or "below" in row["expect"]] == []
