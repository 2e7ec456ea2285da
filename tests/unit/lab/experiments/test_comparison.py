import pytest

from maxsup.lab.experiments.comparison import comparison, recipe_for

RECIPE = "digits_cnn"


def test_every_loss_is_trained_with_every_seed_and_nothing_else_differs() -> None:
    runs = comparison(RECIPE, ["ce", "ls", "maxsup"], seeds=3, overrides=["epochs=2"]).runs()
    assert sorted((run.arm, run.seed) for run in runs) == [
        (arm, seed) for arm in ("ce", "ls", "maxsup") for seed in range(3)
    ]
    shared = {run.recipe.model_dump_json(exclude={"loss", "seed"}) for run in runs}
    assert len(shared) == 1
    assert all(run.recipe.epochs == 2 for run in runs)


def test_a_strength_behind_the_name_is_used_and_gives_the_loss_a_name_of_its_own() -> None:
    [experiment] = comparison(RECIPE, ["maxsup", "maxsup:0.25", "logit_penalty:0.01"]).experiments
    assert [arm.name for arm in experiment.arms] == ["maxsup", "maxsup_0_25", "logit_penalty_0_01"]
    assert experiment.arms[1].loss.options["alpha"] == 0.25
    assert experiment.arms[2].loss.options["beta"] == 0.01


@pytest.mark.parametrize(
    ("losses", "options", "message"),
    [
        (["ce"], {}, "losses must be two or more"),
        (["ce", "maxsub"], {}, "Did you mean 'maxsup'"),
        (["ce", "maxsup:strong"], {}, "name:strength"),
        (["ce", "ce:0.1"], {}, "name:strength"),
        (["ce", "maxsup:-1"], {}, "name:strength"),
        (["ce", "maxsup"], {"baseline": "focal"}, "baseline must be one of the losses; got 'focal'"),
        (["ls", "maxsup:0.2", "maxsup:0.3"], {"baseline": "maxsup"}, "got 'maxsup'. Did you mean 'maxsup:0"),
        (["ce", "ls"], {"seeds": 0}, "seeds must be at least 1; got 0"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(losses: list[str], options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        comparison(RECIPE, losses, **options)


@pytest.mark.parametrize(
    ("words", "asked", "baseline"),
    [
        ("ce,ls,maxsup", None, "ls"),
        ("maxsup,ce", None, "maxsup"),
        ("ce,ls:0.2,maxsup:0.2", None, "ls_0_2"),
        ("ls:0.2,maxsup,ls", None, "ls"),
        ("ls:0.2,maxsup:0.2,maxsup:0.3", "ls:0.2", "ls_0_2"),
        ("ls:0.2,maxsup:0.2,maxsup:0.3", "ls", "ls_0_2"),
    ],
)
def test_the_baseline_is_what_was_asked_for_else_label_smoothing(words: str, asked: str | None, baseline: str) -> None:
    assert comparison(RECIPE, words.split(","), baseline=asked).table.baseline == baseline


def test_what_a_probe_finds_of_known_factors_is_asked_only_where_they_are_known() -> None:
    known = {column.name for column in comparison("synthetic_compare", ["ce", "ls"]).table.columns}
    unknown = {column.name for column in comparison(RECIPE, ["ce", "ls"]).table.columns}
    assert known - unknown == {"factor_x", "factor_hue"}
    assert {"accuracy", "nll", "ece", "aurc", "confidence_wrong", "within", "r_squared"} <= unknown


def test_data_without_a_recipe_of_its_own_gets_a_small_network() -> None:
    assert recipe_for("arrays:some.npz") == "digits_cnn"
    assert recipe_for("synthetic") == "synthetic_compare"


def test_tuned_strengths_are_what_is_then_compared() -> None:
    design = comparison(RECIPE, ["ce", "maxsup"], strengths={"maxsup": {"alpha": 0.05}})
    assert design.experiments[0].arms[1].loss.options["alpha"] == 0.05
    assert design.table.rows[1].title == "maxsup 0.05"


def test_losses_on_masks_are_compared_by_what_masks_have() -> None:
    design = comparison("synthetic_upernet", ["ce", "maxsup"])
    assert [column.name for column in design.table.columns] == ["miou", "accuracy", "class_accuracy", "nll"]
    assert [analysis.what for analysis in design.analyses] == ["segmentation"]


def test_a_loss_that_masks_cannot_be_trained_with_is_refused_before_any_is() -> None:
    with pytest.raises(ValueError, match="loss must need nothing but logits where images have masks; got Zipf"):
        comparison("synthetic_upernet", ["ce", "zipf_ls"])


def test_a_classifier_is_not_compared_on_masks() -> None:
    with pytest.raises(ValueError, match="model must be a segmenter where images have masks"):
        comparison(RECIPE, ["ce", "ls"], overrides=["data.name=pets_trimaps"])


def test_losses_that_pixels_cannot_be_trained_with_are_left_out_by_default() -> None:
    design = comparison("synthetic_upernet")
    assert [row.name for row in design.table.rows] == ["ce", "ls", "maxsup", "logit_penalty"]
    assert len(comparison("digits_cnn").table.rows) == 6


@pytest.mark.parametrize("word", ["loss.name=ce", "loss.alpha=0.3", "loss={name: ce}", "seed=3"])
def test_losses_and_seeds_are_no_overrides(word: str) -> None:
    with pytest.raises(ValueError, match=rf"must not set {word[:4]}; got .*\. Use {word[:4]}e?s, for instance"):
        comparison(RECIPE, ["ce", "ls"], overrides=[word])


def test_the_question_does_not_compare_the_baseline_with_itself() -> None:
    assert "Which of ce, maxsup is better than ls on digits" in comparison(RECIPE, ["ce", "ls", "maxsup"]).question
    assert "Is ce better than ls on digits" in comparison(RECIPE, ["ce", "ls"]).question


def test_one_epoch_is_not_several() -> None:
    design = comparison(RECIPE, ["ce", "ls"], overrides=["epochs=1"])
    assert design.note.endswith(" 1 epoch.")
    assert ", 1 epoch, " in design.unstated[1].choice
