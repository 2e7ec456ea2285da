"""Every study of the package: complete, paired, and made of losses, models, data and analyses that exist."""

import json
import re
from functools import lru_cache
from pathlib import Path

import pytest

from maxsup.lab.analysis import ANALYSES, analyze
from maxsup.lab.analysis.registry import check_options
from maxsup.lab.core.config import LossConfig, Recipe, differing_keys, flat_items
from maxsup.lab.data import DATASETS
from maxsup.lab.experiments import PlannedRun, Study, load_study, study_names
from maxsup.lab.experiments.experiment import EMBEDDED
from maxsup.lab.experiments.statistics import MIN_SEEDS
from maxsup.lab.experiments.study_format import SCALES, ScaleName
from maxsup.lab.training import train
from maxsup.lab.training.builders import build_loss
from maxsup.lab.training.preflight.check import check_recipe
from maxsup.lab.training.progress import Reporter
from maxsup.metrics import PredictionSums

pytestmark = pytest.mark.slow

STUDIES = study_names()
NUM_PUBLISHED = 263

# How the note of the small scale says what follows from its numbers.
CONCLUSION = re.compile("may be (concluded|compared)|may not|holds for|says whether|can be concluded|means nothing")


def shows_analyses(study: Study) -> bool:
    names = {analysis.name for analysis in study.analyses}
    return any(study.metric_of(cell).source in names for cell in study.cells())


each_study = pytest.mark.parametrize("name", STUDIES)
# The small scale is optional.
each_scale = pytest.mark.parametrize(
    ("name", "scale"), [(name, scale) for name in STUDIES for scale in SCALES if scale in load_study(name).scales]
)
SMALL = [name for name in STUDIES if "small" in load_study(name).scales]


@lru_cache
def planned(name: str, scale: ScaleName) -> list[PlannedRun]:
    return load_study(name).at(scale).runs()


def distinct(scale: ScaleName, section: str) -> list[Recipe]:
    """One recipe for every different section of that name in all studies."""
    found: dict[str, Recipe] = {}
    for name in SMALL if scale == "small" else STUDIES:
        for run in load_study(name).at(scale, obstacle=lambda choice: "").runs():
            found.setdefault(getattr(run.recipe, section).model_dump_json(), run.recipe)
    return list(found.values())


def test_all_studies_were_seen() -> None:
    assert len(STUDIES) >= 24
    assert sum(len(load_study(name).published_numbers()) for name in STUDIES) == NUM_PUBLISHED


@each_study
def test_a_study_says_what_it_asks_and_what_was_chosen(name: str) -> None:
    study = load_study(name)
    assert study.name == name
    assert study.label.replace(":", "_").replace("-", "_") in (name, f"ours_{name}")
    assert study.question.endswith(("?", "."))
    assert study.stated
    assert len(study.unstated) >= 2
    assert all(open_point.what and open_point.choice for open_point in study.unstated)
    assert bool(study.published) == (study.kind == "table")
    assert study.analyses or study.kind == "table"


@each_study
def test_every_comparison_has_all_its_runs(name: str) -> None:
    study = load_study(name)
    for scale in study.scales:
        served = {(cell, run.seed) for run in planned(name, scale) for cell in run.cells}
        for table in study.at(scale).table.comparisons():
            assert {(cell, seed) for cell in table.cells.values() for seed in study.scales[scale].seeds} <= served
    assert len(study.at("full").table.comparisons()) >= len(study.at("tiny").table.comparisons()) > 0


@each_scale
def test_runs_that_are_compared_differ_in_the_loss_alone(name: str, scale: ScaleName) -> None:
    study = load_study(name)
    runs = {(cell, run.seed): run.recipe for run in planned(study.name, scale) for cell in run.cells}
    num_pairs = 0
    for table in study.at(scale).table.comparisons():
        for seed in study.scales[scale].seeds:
            baseline = runs[table.cells[study.baseline], seed]
            for arm, cell in table.cells.items():
                if arm != study.baseline:
                    differing = differing_keys(baseline, runs[cell, seed])
                    assert differing
                    assert all(key.startswith("loss.") for key in differing)
                    num_pairs += 1
    assert num_pairs > 0


@pytest.mark.parametrize(("scale", "num_models"), [("full", 23), ("small", 15), ("tiny", 14)])
def test_every_model_can_be_built(scale: ScaleName, num_models: int) -> None:
    checked = [check_recipe(recipe) for recipe in distinct(scale, "model")]
    assert len(checked) >= num_models
    assert all(facts["num_parameters"] > 500 for facts in checked)


@pytest.mark.parametrize(("scale", "num_losses"), [("full", 23), ("small", 22), ("tiny", 23)])
def test_every_loss_can_be_built_from_its_options(scale: ScaleName, num_losses: int) -> None:
    losses = [build_loss(recipe.loss) for recipe in distinct(scale, "loss")]
    assert len(losses) >= num_losses


@pytest.mark.parametrize("scale", SCALES)
def test_every_data_set_exists_with_its_options(scale: ScaleName) -> None:
    found = distinct(scale, "data")
    for recipe in found:
        assert set(recipe.data.options) <= set(DATASETS.options(recipe.data.name.partition(":")[0]))
    assert len(found) >= 6


@each_study
def test_strengths_are_written_out(name: str) -> None:
    # A default that moves must not move a study, and runs that two studies share must be spelled alike.
    for run in planned(name, "full"):
        strength = build_loss(run.recipe.loss).strength
        assert strength is None or strength in run.recipe.loss.options


@each_study
def test_the_full_scale_can_conclude_something_and_the_tiny_one_is_tiny(name: str) -> None:
    study = load_study(name)
    assert len(study.scales["full"].seeds) >= MIN_SEEDS
    tiny = planned(name, "tiny")
    assert all(run.recipe.data.name in EMBEDDED for run in tiny)
    assert all(run.recipe.threads == 1 for run in tiny)
    # An epoch takes from 0.15 s (digits) to 0.8 s (drawn digits) of one core.
    assert sum(run.recipe.epochs for run in tiny) <= 110
    assert "say nothing about the paper's" in study.scales["tiny"].note


@pytest.mark.parametrize("name", SMALL)
def test_the_small_scale_is_of_real_images_shares_its_runs_and_can_conclude_something(name: str) -> None:
    study = load_study(name)
    small = planned(name, "small")
    assert len(study.scales["small"].seeds) >= MIN_SEEDS
    assert all(run.pool and run.recipe.threads == 1 for run in small)
    assert name == "ours_width_digits" or not any(run.recipe.data.name in EMBEDDED for run in small)
    assert CONCLUSION.search(study.scales["small"].note)


def test_a_pool_is_one_setting() -> None:
    settings: dict[str, set[str]] = {}
    losses: dict[str, set[str]] = {}
    for name in SMALL:
        for run in planned(name, "small"):
            # The images of a long tail are drawn by the seed of the run.
            values = run.recipe.model_copy(update={"loss": LossConfig(), "seed": 0}).model_dump(mode="json")
            values["data"]["options"].pop("subset_seed", None)
            settings.setdefault(run.pool, set()).add(json.dumps(values))
            losses.setdefault(run.pool, set()).add(run.recipe.loss.model_dump_json())
    assert all(len(found) == 1 for found in settings.values())
    assert [len(losses[pool]) for pool in ("c10", "c100", "vit", "lt_50")] == [8, 15, 3, 4]


@each_scale
def test_analyses_exist_with_their_options(name: str, scale: ScaleName) -> None:
    study = load_study(name)
    planned = study.at(scale).analyses
    for analysis in planned:
        check_options(analysis.what, analysis.options)
        if analysis.data is not None:
            assert analysis.data.name.partition(":")[0] in DATASETS.names()
    assert len(planned) == len(study.analyses) or scale == "small"
    assert {analysis.what for analysis in planned} <= set(ANALYSES)


@each_study
def test_numbers_of_the_test_split_are_those_that_evaluation_gives(name: str) -> None:
    study = load_study(name)
    given = set(PredictionSums().compute())
    for cell in study.cells():
        metric = study.metric_of(cell)
        assert metric.source != "test" or metric.name in given
        assert metric.source != "timing" or metric.name == "seconds"


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ("tab_comparison_new", "tab_feature tab_feature2 tab_validation_performance tab_extended_feature"),
        ("tab_comparison_new", "tab_complexity fig_logit_analysis"),
        ("tab_deit_small_comparison", "fig_gradcam"),
    ],
)
def test_studies_of_the_same_networks_share_their_runs(whole: str, parts: str) -> None:
    def experiments(name: str) -> set[str]:
        return {json.dumps(flat_items(run.recipe.model_dump(mode="json"))) for run in planned(name, "full")}

    for part in parts.split():
        assert experiments(part) <= experiments(whole), part


@pytest.mark.parametrize("name", [name for name in STUDIES if shows_analyses(load_study(name))])
def test_analyses_give_the_numbers_that_cells_show(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    tiny = study.at("tiny", overrides=["epochs=1"])
    [run, *_] = tiny.runs()
    train(run.recipe, tmp_path / "run", name=name, reporter=Reporter())
    num_found = 0
    for analysis in {plan.what: plan for plan in tiny.analyses}.values():
        options = dict(analysis.options)
        if analysis.what == "probe" and analysis.data is not None:
            options["target"] = analysis.data.name
        done = analyze([tmp_path / "run"], [analysis.what], split=analysis.split, options={analysis.what: options})
        [result] = done.results[analysis.what].values()
        for cell in study.cells():
            metric = study.metric_of(cell)
            if metric.source == analysis.name and not tiny.table.left_out(cell):
                assert metric.direction == result["numbers"][metric.name]["direction"]
                num_found += 1
    assert num_found > 0
