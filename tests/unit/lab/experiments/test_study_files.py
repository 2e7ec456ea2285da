"""Study files: read strictly, expanded into paired runs, and typed without a slip."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from maxsup.lab.experiments.experiment import DataChoice
from maxsup.lab.experiments.study_files import describe_studies, load_study, study_names, study_path
from maxsup.lab.experiments.study_format import Study, first_usable
from maxsup.lab.experiments.table import Cell, Metric
from tests.architecture.test_third_party import packages_loaded_by
from tests.unit.lab.experiments.tex_tables import table_labels, table_rows

SMALL = """
label: tab:own
title: A study of one's own
question: Does it work?
stated: [nothing]
unstated: [{what: everything, choice: anything}]
baseline: ce
rows:
  - {name: ce, title: CE, loss: {name: ce}}
  - {name: ls, title: LS, loss: {name: ls, alpha: 0.1}}
columns:
  - {name: small, title: Small}
  - {name: strong, title: Strong, losses: {ls: {alpha: 0.3}}}
analyses:
  - {name: probe, what: probe, data: cifar10, options: {a: 1, b: 2}}
published:
  - {label: "tab:own", columns: [small, strong], rows: {ce: [1, 1.5], ls: [2.25±0.5, 3]}}
scales:
  full:
    recipe: digits_cnn
    seeds: [0, 1, 2]
    columns: {strong: {overrides: [epochs=7]}}
  tiny:
    note: everything is small
    recipe: digits_cnn
    overrides: [epochs=2]
    seeds: [4, 2]
    data: [{name: cifar10, image_size: 16, overrides: [epochs=1]}, {name: synthetic, options: {copies: 1}}]
    analyses: {probe: {options: {b: 3}, data: [{name: cifar100}, {name: digits}]}}
"""

FULL = SMALL[SMALL.index("  full:") : SMALL.index("  tiny:")]

Write = Callable[..., Study]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Loads the small study after replacing parts of its text."""

    def loaded(*changes: tuple[str, str]) -> Study:
        text = SMALL
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
        return load_study(tmp_path / "own.yaml")

    return loaded


# --- reading


def test_a_file_of_ones_own_is_read_and_named_after_itself(write: Write) -> None:
    study = write()
    assert study.name == "own"
    assert study.row("ls").loss.options == {"alpha": 0.1}
    assert study.metric.factor == 100


def test_published_numbers_keep_label_place_and_spread(write: Write) -> None:
    numbers = write().published_numbers()
    assert numbers[1:3] == [("tab:own", "ce", "strong", 1.5, None), ("tab:own", "ls", "small", 2.25, 0.5)]
    assert len(numbers) == 4


def test_a_study_survives_a_round_trip_through_json_and_cannot_be_changed(write: Write) -> None:
    study = write()
    assert Study.model_validate_json(study.model_dump_json()) == study
    with pytest.raises(ValueError, match="frozen"):
        study.baseline = "ls"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("baseline: ce", "baseline: ce\nbaselin: ce", "got 'baselin'. Did you mean 'baseline'"),
        (
            "title: Small}",
            "titel: Small}",
            "columns.0 in study own must be one it has; got 'titel'. Did you mean 'title'",
        ),
        ("note: everything is small\n", "note: x\n    seed: 3\n", "got 'seed'. Did you mean 'seeds'"),
        ("    note: everything is small\n", "", "note of the tiny scale must say what was reduced"),
        ("baseline: ce", "baseline: zz", "baseline must be in every group once; got 0 of 'zz'"),
        ("loss: {name: ce}", "losses: {}", "loss must be given by either the row or the column"),
        ("title: Small}", "title: Small, loss: {name: ce}}", "got Cell(row='ce', column='small') with both"),
        ("name: strong", "name: small", "column must have a name of its own; got 'small' twice"),
        ("rows: {ce: [1, 1", "rows: {cee: [1, 1", "row must be one that the study has; got 'cee'. Did you mean 'ce'"),
        ("ce: [1, 1.5]", "ce: [1]", "a number for each of 2 columns; got 1 in 'ce'"),
        ("2.25±0.5", "2.25+0.5", "published value must be a number or mean±std; got '2.25+0.5'"),
        ("columns: {strong:", "columns: {weak:", "column must be one that the study has; got 'weak'"),
        ("seeds: [4, 2]", "seeds: [4, 4]", "seeds must differ"),
        ("seeds: [4, 2]", "seeds: []", "seeds in study own must be"),
        (", {name: synthetic, options: {copies: 1}}]", "]", "at the tiny scale must always be there; got 'cifar10'"),
        ("title: Small}", "title: Small, metric: {source: prob}}", "source must be one that the study has; got 'prob'"),
        ("question: Does it work?\n", "", "question in study own must be given"),
        (FULL, "", "scales must be full and tiny; got no full"),
        ("stated: [nothing]", "stated: !!python/object/apply:os.getcwd []", "valid YAML"),
    ],
)
def test_a_mistake_is_named_in_a_sentence(write: Write, old: str, new: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)) as raised:
        write((old, new))
    assert "validation error" not in str(raised.value)


def test_a_study_is_found_by_name_by_label_and_by_path(tmp_path: Path) -> None:
    assert load_study("tab_feature2") == load_study("tab:feature2")
    assert load_study(study_path("tab_pre")) == load_study("tab_pre")
    with pytest.raises(ValueError, match="Did you mean 'tab_feature2'"):
        load_study("tab_featur2")
    with pytest.raises(ValueError, match="must be a file that exists"):
        load_study(tmp_path / "none.yaml")


def test_listing_gives_what_the_files_say() -> None:
    rows = describe_studies()
    assert [row["name"] for row in rows] == study_names()
    for row in rows:
        study = load_study(row["name"])
        assert (row["label"], row["kind"], row["title"]) == (study.label, study.kind, study.title)


def test_listing_costs_no_further_package() -> None:
    loaded = packages_loaded_by("import maxsup.lab.experiments as studies; studies.describe_studies()")
    assert loaded == {"maxsup"}


# --- from cells to experiments


def test_every_cell_gets_a_run_of_every_seed_and_equal_recipes_are_one_run(write: Write) -> None:
    runs = write().at("tiny").runs()
    assert [(run.seed, run.arm, run.cells) for run in runs[:3]] == [
        (4, "ce", (Cell("ce", "small"), Cell("ce", "strong"))),
        (4, "ls", (Cell("ls", "small"),)),
        (4, "ls", (Cell("ls", "strong"),)),
    ]
    assert [run.seed for run in runs] == [4, 4, 4, 2, 2, 2]
    assert all(run.recipe.seed == run.seed for run in runs)


def test_options_of_a_loss_come_from_both_axes(write: Write) -> None:
    options = {run.cells[0].column: run.recipe.loss.options for run in write().at().runs() if run.arm == "ls"}
    assert options == {"small": {"alpha": 0.1}, "strong": {"alpha": 0.3}}


def test_overrides_apply_from_the_general_to_the_particular(write: Write) -> None:
    epochs = {run.cells[0].column: run.recipe.epochs for run in write().at("full").runs() if run.arm == "ls"}
    assert epochs == {"small": 20, "strong": 7}
    everywhere = write().at("full", overrides=["epochs=1", "data.root=here"]).runs()
    assert {(run.recipe.epochs, run.recipe.data.root) for run in everywhere} == {(1, "here")}


def test_the_first_data_that_is_there_is_used(write: Write) -> None:
    data = {run.recipe.data.name for run in write().at().runs()}
    assert data == {"synthetic"}
    [found] = {
        (run.recipe.data.name, run.recipe.data.image_size, run.recipe.epochs)
        for run in write().at(obstacle=lambda choice: "" if choice.name == "cifar10" else "none").runs()
    }
    assert found == ("cifar10", 16, 1)
    assert {run.recipe.data.name for run in write().at("full").runs()} == {"digits"}
    assert first_usable([], lambda choice: "") is None


def test_a_seed_can_stand_in_an_override(write: Write) -> None:
    study = write(("overrides: [epochs=2]", 'overrides: [epochs=2, "data.split_seed={seed}"]'))
    assert {(run.seed, run.recipe.data.split_seed) for run in study.at().runs()} == {(4, 4), (2, 2)}


def test_cells_that_are_left_out_need_no_run_and_say_why(write: Write) -> None:
    study = write(("    note: everything is small\n", "    note: x\n    columns: {strong: {left_out: too dear}}\n"))
    assert {cell.column for run in study.at().runs() for cell in run.cells} == {"small"}
    tiny, full = study.at("tiny").table, study.at("full").table
    assert tiny.left_out(Cell("ls", "strong")) == "too dear"
    assert full.left_out(Cell("ls", "strong")) == ""
    assert [found.other for found in tiny.comparisons()] == ["small"]


def test_analyses_get_the_options_and_the_data_of_the_scale(write: Write) -> None:
    [full] = write().at("full").analyses
    [tiny] = write().at("tiny").analyses
    [found] = write().at("tiny", obstacle=lambda choice: "").analyses
    assert (full.options, full.data) == ({"a": 1, "b": 2}, DataChoice(name="cifar10"))
    assert (tiny.options, tiny.data) == ({"a": 1, "b": 3}, DataChoice(name="digits"))
    assert found.data == DataChoice(name="cifar100")


def test_arms_of_a_group_are_compared_within_it() -> None:
    tables = load_study("tab_lt").at("full").table.comparisons()
    assert {table.group for table in tables[:2]} == {"test, imbalance 50"}
    assert [table.other for table in tables[:2]] == ["overall", "many"]
    assert tables[0].cells["ls"] == Cell("test_50_ls", "overall")
    assert list(tables[0].cells) == ["ce", "focal", "ls", "maxsup"]


def test_losses_may_stand_in_columns() -> None:
    [table] = load_study("tab_ablation_alpha").at().table.comparisons()
    assert list(table.cells) == ["linear", "linear_from_zero", "linear_high", "adaptive"]
    assert table.cells["adaptive"] == Cell("accuracy", "adaptive")


def test_long_tailed_subsets_follow_the_seed_and_not_the_loss() -> None:
    runs = load_study("tab_lt").at("full").runs()
    assert {(run.seed, run.recipe.data.options["subset_seed"]) for run in runs} == {(seed, seed) for seed in range(6)}


@pytest.mark.parametrize(
    ("metric", "printed", "std", "text"),
    [
        (Metric(digits=1), 76.449, None, "76.4"),
        (Metric(digits=2), 76.449, 0.1, "76.45 ± 0.10"),
        (Metric(form="duration"), 231.4, None, "3 min 51 s"),
        (Metric(form="duration", digits=1), 0.62, None, "0.6 s"),
        (Metric(form="duration"), 119.7, None, "2 min 0 s"),
        (Metric(form="duration"), 0.62, 0.031, "0.62 s ± 0.03 s"),
    ],
)
def test_numbers_are_printed_as_the_metric_says(metric: Metric, printed: float, std: float | None, text: str) -> None:
    assert metric.text(printed, std) == text


# --- the published numbers


def slips(study: Study, tex: str) -> list[str]:
    """Where a study's published numbers are not those of the paper's table, row by row and in its order."""
    typed: dict[str, list[tuple[float, float | None]]] = {}
    for number in study.published_numbers():
        typed.setdefault(number.row, []).append((number.mean, number.std))
    printed = table_rows(tex, study.label)
    found = [f"{len(typed)} rows for {len(printed)}"] if len(typed) != len(printed) else []
    for (row, numbers), line in zip(typed.items(), printed, strict=False):
        if numbers != line.numbers:
            found.append(f"{row}: {numbers} for {line.numbers}")
    return found


TABLES = [row["name"] for row in describe_studies() if row["kind"] == "table"]


@pytest.mark.parametrize("name", TABLES)
def test_published_numbers_are_those_of_the_paper(name: str, paper: str) -> None:
    study = load_study(name)
    assert slips(study, paper) == []
    assert {number.label for number in study.published_numbers()} == {study.label}


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_called_as_in_the_paper(name: str, paper: str) -> None:
    study = load_study(name)
    with_numbers = {number.row for number in study.published_numbers()}
    titles = [row.title for row in study.rows if row.name in with_numbers]
    for title, line in zip(titles, table_rows(paper, study.label), strict=True):
        # Four letters tell the methods apart; tables spell some of them in several ways, and one has no title.
        ours, theirs = ("".join(filter(str.isalpha, text)).lower()[:4] for text in (title, line.title))
        assert theirs in ("", ours)


def test_a_slip_of_the_pen_would_be_found(paper: str) -> None:
    study = load_study("tab_comparison_new")
    values = study.model_dump(mode="json")
    values["published"][0]["rows"]["ols"][3]["std"] = 0.12
    assert [slip[:4] for slip in slips(Study.model_validate(values), paper)] == ["ols:"]


def test_every_table_of_the_paper_has_a_study(paper: str) -> None:
    # tab:my_label is a second label of tab:complexity.
    labels = {label for name in TABLES for label in (load_study(name).label, *load_study(name).also)}
    assert table_labels(paper) == labels | {"tab:my_label"}


def test_every_figure_with_results_has_a_study(paper: str) -> None:
    rows = [row for row in describe_studies() if not row["label"].startswith("ours:")]
    figures = [load_study(row["name"]) for row in rows if row["kind"] == "figure"]
    labels = {label for study in figures for label in (study.label, *study.also)}
    assert len(figures) == 3
    assert all(f"\\label{{{label}}}" in paper for label in labels)
