"""Recipes: what they accept, what they refuse, and what they say then."""

import pytest
from pydantic import ValidationError

from maxsup.lab.core.config import AugmentConfig, Recipe, differing_keys, flat_items, parse_recipe


def test_an_empty_recipe_is_complete() -> None:
    recipe = parse_recipe({})
    assert recipe == Recipe()
    assert (recipe.data.name, recipe.loss.name, recipe.optimizer.name) == ("digits", "maxsup", "sgd")


def test_old_sizes_are_read_as_the_ratio_they_stand_for() -> None:
    # Before the override changes the image size: 256 of 224 is a ratio, 256 of 32 would hide most of the image.
    old = {"data": {"image_size": 224}, "augment": {"eval_resize": 256}}
    assert parse_recipe(old, ["data.image_size=32"]).augment == AugmentConfig(crop_pct=0.875, crop_mode="center")
    squashed = parse_recipe({**old, "augment": {"resize": 256, "eval_resize": None}}).augment
    assert squashed == AugmentConfig(crop_pct=0.875, crop_mode="squash", random_crop=True)
    written_out = {"resize": None, "eval_resize": None, "interpolation": "bilinear", "flip": True}
    plain = AugmentConfig(crop_pct=1.0, crop_mode="center", interpolation="bilinear", flip=True)
    assert parse_recipe({"augment": written_out}).augment == plain
    for augment in ({"eval_resize": 256}, {"eval_resize": "large"}):
        with pytest.raises(ValueError, match=r"crop_pct must take the place of resize and eval_resize; got "):
            parse_recipe({"augment": augment})


def test_a_recipe_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Recipe().epochs = 3  # type: ignore[misc]


def test_a_recipe_survives_being_written_and_read() -> None:
    recipe = parse_recipe({}, ["loss.alpha={schedule: linear, start: 0.1, end: 0.2}", "schedule.warmup_epochs=2"])
    assert parse_recipe(recipe.model_dump(mode="json")) == recipe


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["optimiser.lr=1"], "key of recipe must be one it has; got 'optimiser'. Did you mean 'optimizer'?"),
        (["optimizer.lrr=1"], "key of optimizer in recipe must be one it has; got 'lrr'. Did you mean 'lr'?"),
        (["augment.flp=true"], "key of augment in recipe must be one it has; got 'flp'. Did you mean 'flip'?"),
        (["optimizer.lr=-1"], "optimizer.lr in recipe must be greater than 0; got -1."),
        (["optimizer.lr=1e300"], "optimizer.lr in recipe must be at most 1e+30; got 1e+300."),
        (["optimizer.weight_decay=1e39"], "optimizer.weight_decay in recipe must be at most 1e+06; got 1e+39."),
        (["schedule.final_lr=1e39"], "schedule.final_lr in recipe must be at most 1e+30; got 1e+39."),
        (["epochs=0"], "epochs in recipe must be greater than 0; got 0."),
        (["epochs=2.5"], "epochs in recipe must be "),
        (["iterations=100", "epochs=3"], "iterations must be a multiple of epochs=3; got 100."),
        (["schedule.warmup_iterations=5"], "schedule.warmup_iterations must go with iterations; got 5 without."),
        (
            ["iterations=100", "schedule.warmup_iterations=5", "schedule.warmup_epochs=1"],
            "warmup_iterations must be the only warm-up",
        ),
        (["dense.ratio=[2.0, 0.5]"], "ratio must be a smallest and a largest factor, 0 < low <= high; got (2.0, 0.5)."),
        (["dense.evaluation=slide"], "stride must be given with evaluation=slide and only there;"),
        (["dense.stride=5"], "stride must be given with evaluation=slide and only there;"),
        (["optimizer.name=lion"], "optimizer.name in recipe must be 'sgd' or 'adamw'; got 'lion'."),
        (["optimizer.lr=.nan"], "optimizer.lr in recipe must be "),
        (["data=5"], "data in recipe must be "),
        (["optimizer.nesterov=true", "optimizer.momentum=0"], "nesterov must go with a momentum above 0"),
        (["schedule.name=multistep"], "milestones must be given with name=multistep and only there"),
        (["schedule.milestones=[3]"], "milestones must be given with name=multistep and only there"),
        (["schedule.name=multistep", "schedule.milestones=[5, 3]"], "milestones must grow; got [5, 3]."),
        (["augment.scale=[0.5, 0.1]"], "augment in recipe: scale must be a smallest and a largest share of the image"),
        (["lr"], "override must be key.sub=value; got 'lr'."),
        (["a..b=1"], "override must be key.sub=value; got 'a..b=1'."),
        (["=1"], "override must be key.sub=value; got '=1'."),
        (["epochs=[1"], "value of epochs must be valid YAML"),
    ],
)
def test_a_mistake_is_named(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_recipe({}, overrides)
    assert sentence in str(caught.value)


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"optimizer\.lr in recipe must .* epochs in recipe must ") as caught:
        parse_recipe({"optimizer": {"lr": 0}, "epochs": 0})
    assert str(caught.value).count(" must be ") == 2


def test_later_overrides_win() -> None:
    assert parse_recipe({"epochs": 5}, ["epochs=6", "epochs=7"]).epochs == 7


def test_numbers_may_be_written_as_1e_4() -> None:
    recipe = parse_recipe({}, ["optimizer.weight_decay=1e-4", "loss.alpha=1e-1"])
    assert recipe.optimizer.weight_decay == 1e-4
    assert recipe.loss.options == {"alpha": 0.1}


def test_another_loss_starts_without_the_options_of_the_old_one() -> None:
    values = {"loss": {"name": "maxsup", "alpha": 0.3, "adaptive": True}}
    assert parse_recipe(values, ["loss.name=ce"]).loss.options == {}
    assert parse_recipe(values, ["loss.name=ls", "loss.alpha=0.2"]).loss.options == {"alpha": 0.2}
    assert parse_recipe(values, ["loss.name=maxsup"]).loss.options == {"alpha": 0.3, "adaptive": True}


def test_another_model_or_data_set_keeps_all_but_the_options() -> None:
    values = {
        "model": {"name": "a", "options": {"width": 2}, "classifier": "tde"},
        "data": {"name": "x", "val_share": 0.2},
    }
    recipe = parse_recipe(values, ["model.name=b", "data.name=y"])
    assert (recipe.model.options, recipe.model.classifier, recipe.data.val_share) == ({}, "tde", 0.2)


def test_an_override_reaches_into_a_schedule() -> None:
    recipe = parse_recipe({"loss": {"name": "ls", "alpha": 0.1}}, ["loss.alpha.schedule=linear", "loss.alpha.end=0.2"])
    assert recipe.loss.options == {"alpha": {"schedule": "linear", "end": 0.2}}


def test_the_values_given_are_left_alone() -> None:
    values = {"optimizer": {"lr": 0.1}}
    parse_recipe(values, ["optimizer.lr=0.2"])
    assert values == {"optimizer": {"lr": 0.1}}


def test_circumstances_make_no_other_experiment() -> None:
    same = parse_recipe({}, ["threads=2", "data.num_workers=4", "data.root=/data", "save_every_steps=5"])
    assert differing_keys(Recipe(), same) == {}
    assert differing_keys(Recipe(), parse_recipe({}, ["seed=1", "loss.alpha=0.2"])) == {
        "seed": (0, 1),
        "loss.alpha": (None, 0.2),
    }


def test_flat_items_keep_empty_mappings() -> None:
    assert flat_items({"a": {"b": {}, "c": 1}}) == {"a.b": {}, "a.c": 1}


def test_augmentation_is_off_by_default() -> None:
    assert not any(value for name, value in AugmentConfig() if name not in ("scale", "interpolation"))
