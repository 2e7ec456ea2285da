"""Runs are the product of a setting, losses and seeds; a study is translated into such products in one place."""

from pathlib import Path

import pytest

from maxsup.lab.core.config import LossConfig
from maxsup.lab.experiments.design import Design
from maxsup.lab.experiments.experiment import Arm, Experiment, Setting
from maxsup.lab.experiments.study_files import load_study, study_names
from maxsup.lab.experiments.table import Cell, Place

ARMS = (Arm(name="ce", loss=LossConfig(name="ce")), Arm(name="ls", loss=LossConfig(name="ls", alpha=0.1)))


def test_runs_are_the_product_of_setting_losses_and_seeds_seed_by_seed() -> None:
    setting = Setting(recipe="digits_cnn", overrides=("epochs=2", "data.split_seed={seed}"))
    runs = Experiment(setting=setting, arms=ARMS, seeds=(3, 8)).runs()
    assert [(run.arm, run.seed) for run in runs] == [("ce", 3), ("ls", 3), ("ce", 8), ("ls", 8)]
    assert all(run.recipe.seed == run.recipe.data.split_seed == run.seed for run in runs)
    assert [run.recipe.loss.label for run in runs[:2]] == ["ce", "ls alpha=0.1"]
    assert {run.recipe.epochs for run in runs} == {2}


def test_a_recipe_is_validated_once_for_all_losses_and_again_when_its_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxsup.lab.core import config

    file, validated = tmp_path / "own.yaml", config.validated
    calls: list[object] = []
    monkeypatch.setattr(config, "validated", lambda *words, **options: calls.append(1) or validated(*words, **options))
    file.write_text("epochs: 3")
    experiment = Experiment(setting=Setting(recipe=str(file)), arms=ARMS, seeds=tuple(range(6)))
    assert {run.recipe.epochs for run in [*experiment.runs(), *experiment.runs()]} == {3}
    assert len(calls) == 1
    file.write_text("epochs: 4")
    assert {run.recipe.epochs for run in experiment.runs()} == {4}


def test_a_seed_counts_once() -> None:
    with pytest.raises(ValueError, match="seeds must differ"):
        Experiment(setting=Setting(recipe="digits_cnn"), arms=ARMS, seeds=(1, 1))


def test_a_setting_is_an_experiment_and_a_number_is_not() -> None:
    # Four networks on two data sets, and seven losses.
    assert [len(each.arms) for each in load_study("tab_comparison_new").at("full").experiments] == [7] * 8
    # Five columns, all of them numbers of the same runs.
    [experiment] = load_study("tab_feature2").at("full").experiments
    assert len(experiment.arms) == 6


def test_experiments_with_the_same_recipe_share_a_run_and_each_is_complete() -> None:
    design = load_study("tab_alpha").at("full")
    assert [[arm.name for arm in each.arms] for each in design.experiments] == [["ce", "ls", "maxsup"]] * 2
    [plain] = [run for run in design.runs() if run.seed == 0 and run.recipe.loss.name == "ce"]
    assert plain.cells == (Cell("ce", "constant"), Cell("ce", "linear"))
    assert design.table.place(Cell("ls", "linear")) == Place(experiment=1, arm="ls")


@pytest.mark.parametrize("name", study_names())
def test_every_cell_has_a_source_or_a_reason_and_a_design_survives_json(name: str) -> None:
    study = load_study(name)
    for scale in study.scales:
        design = study.at(scale)
        for cell in design.table.cells():
            place = design.table.place(cell)
            assert (place is None) == bool(design.table.left_out(cell))
            assert place is None or place.arm in {arm.name for arm in design.experiments[place.experiment].arms}
        assert Design.model_validate(design.model_dump(mode="json")) == design
