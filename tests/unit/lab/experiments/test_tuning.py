"""Strengths chosen on validation: the same runs for all losses, seeds that nothing is judged by, shared by studies."""

from pathlib import Path

import pytest

from maxsup.lab.experiments.comparison import comparison
from maxsup.lab.experiments.design import Design
from maxsup.lab.experiments.study_files import load_study, study_names
from maxsup.lab.experiments.study_format import Study
from maxsup.lab.experiments.tuning import add_tuned_rows, choose_strengths, strength_of, trials_of
from maxsup.lab.training.run import recipe_digest
from tests.unit.lab.experiments.made import finish_run, lay_out

RECIPE = "digits_cnn"


def test_tuning_gives_every_loss_with_a_strength_the_same_number_of_runs() -> None:
    trials = trials_of(comparison(RECIPE, ["ce", "ls", "maxsup", "logit_penalty"]))
    counts: dict[str, int] = {}
    for run in trials.runs():
        counts[run.recipe.loss.name] = counts.get(run.recipe.loss.name, 0) + 1
    assert counts == {"ls": 6, "maxsup": 6, "logit_penalty": 6}


def test_tuning_and_comparison_share_no_seed() -> None:
    design = comparison(RECIPE, ["ce", "ls"])
    assert not set(trials_of(design).seeds) & set(design.seeds)


def test_tuning_takes_the_strength_that_is_best_on_validation_and_the_lower_nll_of_equals(tmp_path: Path) -> None:
    folder = lay_out(trials_of(comparison(RECIPE, ["ce", "ls", "maxsup"])), tmp_path)
    scores = {"ls_0": (0.9, 0.5), "ls_1": (0.8, 0.1), "ls_2": (0.7, 0.1)}
    scores |= {"maxsup_0": (0.9, 0.5), "maxsup_1": (0.9, 0.5), "maxsup_2": (0.9, 0.4)}
    for name, run in folder.runs.items():
        accuracy, nll = scores[run.arm]
        # Test numbers say the opposite: they must not be looked at.
        finish_run(folder.folder(name), 1 - accuracy, nll=nll, val_accuracy=accuracy)
    chosen = choose_strengths(folder)
    assert chosen["ls"]["alpha"] == pytest.approx(0.05)
    assert chosen["maxsup"]["alpha"] == pytest.approx(0.2)


def test_every_loss_but_plain_cross_entropy_has_a_strength() -> None:
    assert strength_of("ce") == ""
    assert strength_of("logit_norm") == "tau"


STUDIES = [study for study in map(load_study, study_names()) if "small" in study.scales]


@pytest.mark.parametrize("name", [study.name for study in STUDIES if study.scales["small"].tuned])
def test_the_trials_of_every_study_and_its_tuned_rows_are_valid_as_they_are_stored(name: str) -> None:
    study = load_study(name)
    trials = trials_of(study.at("small"), study.scales["small"].tuned)
    assert Design.model_validate(trials.model_dump(mode="json")) == trials
    tuned = add_tuned_rows(study, "small", {"ls": {"alpha": 0.05}, "maxsup": {"alpha": 0.2}})
    assert Study.model_validate(tuned.model_dump(mode="json")) == tuned


def test_studies_of_one_pool_choose_strengths_by_the_same_runs() -> None:
    def trials(name: str) -> set[str]:
        study = load_study(name)
        planned = trials_of(study.at("small"), study.scales["small"].tuned).runs()
        assert {run.pool for run in planned} == {"c10"}
        return {f"{recipe_digest(run.recipe)} {run.seed}" for run in planned}

    assert len(trials("tab_feature")) == 18
    assert trials("tab_feature") == trials("tab_validation_performance") > trials("tab_pre")


def test_a_tuned_row_stands_behind_the_usual_one_and_keeps_what_the_scale_says_of_it() -> None:
    study = load_study("tab_fine_grained")
    tuned = add_tuned_rows(study, "small", {"ls": {"alpha": 0.05}, "maxsup": {"alpha": 0.1}})
    assert [row.name for row in tuned.rows][1:3] == ["ls", "ls_tuned"]
    assert tuned.row("ls_tuned").title == "LS, alpha tuned to 0.05"
    runs = tuned.at("small", obstacle=lambda choice: "").runs()
    by_row = {cell.row: run.recipe.loss.options for run in runs for cell in run.cells}
    assert by_row["ls"] == {"alpha": 0.1}
    assert by_row["ls_tuned"] == {"alpha": 0.05}
    # Nothing is trained twice where tuning finds the usual strength.
    assert len(runs) == 3 * 6 * 4
