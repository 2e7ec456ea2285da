"""Evidence: CSV from runs, verdicts by the protocol's rule, pages that say the same."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from maxsup.core.errors import DataError, MaxsupError
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.recipes import read_yaml
from maxsup.lab.data.bundle import stratified_split
from maxsup.lab.experiments.design import PlannedRun
from maxsup.lab.experiments.statistics import holm, student_interval, student_p_value
from maxsup.lab.experiments.study_files import load_study, study_names
from maxsup.lab.experiments.study_format import Study
from maxsup.lab.experiments.tuning import trials_of
from maxsup.lab.models import create_model
from tests.unit.lab.experiments.made import finish_run, lay_out
from tools.evidence.first.claims import (
    CLAIMS,
    RESULTS,
    SETTINGS,
    Claim,
    claim_entries,
    pool_entries,
    read_claims,
    sweep_entries,
    tuned_claim,
    verdict,
)
from tools.evidence.first.contrasts import pool_entry, width_sweep
from tools.evidence.first.pages import pages_of, verdicts_in, write_evidence
from tools.evidence.first.pools import TRIALS, Tables, collect, read_tables, strength_entries
from tools.evidence.first.prose import prose_entries

EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "evidence"

MARKS = "<!-- claims: written by tools.evidence.first -->"

NOISE = np.array([0.1, -0.1, 0.05, -0.05, 0.02, -0.02])


def claim(direction: str = "higher", **values: object) -> Claim:
    words = {"label": "tab:comparison-new", "states": "A beats B.", "paper": "+1", "number": "n", "claim": "a"}
    return Claim.model_validate(
        words | {"than": "b", "setting": "s", "pools": ["p"], "direction": direction, "margin": 0.3} | values
    )


def tables(differences: list[float], pool: str = "p") -> Tables:
    rows = [{"loss": "b", "seed": seed, "n": 5.0} for seed in range(len(differences))]
    return {pool: rows + [{"loss": "a", "seed": seed, "n": 5 + value} for seed, value in enumerate(differences)]}


# --- the rule


@pytest.mark.parametrize(
    ("direction", "mean", "spread", "word", "reason"),
    [
        ("higher", 1.0, 1.0, "confirmed", "claimed side"),
        ("lower", -1.0, 1.0, "confirmed", "claimed side"),
        ("higher", 0.2, 1.0, "confirmed", "smaller than the margin"),
        ("higher", -1.0, 1.0, "not reproduced", "other side"),
        ("lower", 1.0, 1.0, "not reproduced", "other side"),
        ("higher", 0.0, 1.0, "no difference within the margin", "inside the margin"),
        ("higher", 0.2, 9.0, "inconclusive", "holds 0"),
        ("equal", 0.1, 1.0, "confirmed", "no difference"),
        ("equal", 1.0, 1.0, "not reproduced", "outside the margin"),
        ("equal", 0.3, 1.0, "inconclusive", "beyond the margin"),
    ],
)
def test_the_rule_of_the_protocol(direction: str, mean: float, spread: float, word: str, reason: str) -> None:
    found = verdict(claim(direction), tables((mean + spread * NOISE).tolist()))
    assert (found.word, found.num_pairs) == (word, 6)
    assert reason in found.reason
    assert found.mean == pytest.approx(mean)


def test_numbers_are_in_printed_units_and_so_is_the_margin() -> None:
    found = verdict(claim(factor=100, margin=0.3), tables((0.002 + 0.001 * NOISE).tolist()))
    assert found.mean == pytest.approx(0.2)
    assert "smaller than the margin" in found.reason


@pytest.mark.parametrize("num", [0, 1, 5])
def test_fewer_than_six_pairs_decide_nothing(num: int) -> None:
    found = verdict(claim(), tables([9.0] * num))
    assert found.word == "inconclusive"
    assert found.reason == f"{num} of at least 6 paired seeds"


def test_a_seed_that_lacks_one_of_both_is_no_pair_and_pools_are_averaged_within_a_seed() -> None:
    first, second = tables([1.0] * 7, "p"), tables([3.0] * 7, "q")
    second["q"][-1]["n"] = math.nan
    found = verdict(claim(pools=["p", "q"]), first | second)
    assert (found.num_pairs, found.mean) == (6, 2.0)
    assert verdict(claim(pools=["p", "missing"]), first).num_pairs == 0


def test_the_line_of_a_sweep_is_found_and_a_sweep_without_slope_is_left_open() -> None:
    def swept(slope: float) -> Tables:
        made: Tables = {}
        for width, wrong in enumerate((0.05, 0.2, 0.5)):
            made[f"c10_w{width}"] = [
                {"loss": loss, "seed": seed, "test.accuracy": 0.5 + gain, "collapse.train_accuracy": 1 - wrong}
                for seed, noise in enumerate(NOISE)
                for loss, gain in (("ls alpha=0.2", 0.0), ("maxsup alpha=0.2", (slope + noise / 20) * wrong))
            ]
        return made

    found = width_sweep(swept(0.06), "c10_w")
    assert found["slope"] == pytest.approx(0.06)
    assert found["intercept"] == pytest.approx(0, abs=1e-12)
    assert [point[0] for point in found["points"]] == pytest.approx([0.05, 0.2, 0.5])
    words = [width_sweep(swept(slope), "c10_w")["word"] for slope in (0.06, 0.0, -0.06)]
    assert words == ["confirmed", "inconclusive", "not reproduced"]
    assert width_sweep({}, "c10_w")["num_seeds"] == 0


# --- all pools at a glance


def rows(loss: str, accuracies: list[float], **others: float) -> list[dict[str, object]]:
    return [{"loss": loss, "seed": seed, "test.accuracy": value, **others} for seed, value in enumerate(accuracies)]


def test_a_pool_has_the_means_of_its_losses_in_a_fixed_order() -> None:
    table = rows("poly1", [0.5]) + rows("maxsup alpha=0.1", [0.7, 0.9]) + rows("ls alpha=0.1", [0.6, 0.7])
    entry = pool_entry("p", table, [])
    assert [row["loss"] for row in entry["rows"]] == ["ls alpha=0.1", "maxsup alpha=0.1", "poly1"]
    assert [row["num_seeds"] for row in entry["rows"]] == [2, 2, 1]
    assert entry["rows"][1]["means"] == [pytest.approx(0.8)]


def test_differences_are_taken_within_a_seed_and_only_where_both_losses_ran() -> None:
    table = rows("maxsup alpha=0.1", [0.7, 0.9, 0.1]) + rows("ls alpha=0.1", [0.6, 0.7])
    mean, low, high, num_pairs = pool_entry("p", table, [])["contrast"]["test.accuracy"]
    assert (mean, num_pairs) == (pytest.approx(0.15), 2)
    assert low < 0.1 < 0.2 < high


def test_the_two_losses_that_are_contrasted_have_one_strength_and_no_schedule() -> None:
    table = rows("ls alpha=0.1..0.2", [0.1]) + rows("ls alpha=0.1 convention=k-1", [0.5])
    table += rows("maxsup alpha=0.1..0.2", [0.9]) + rows("maxsup alpha=0.1", [0.7])
    entry = pool_entry("p", table, [])
    assert entry["smoothing"] == "ls alpha=0.1 convention=k-1"
    assert entry["contrast"]["test.accuracy"][0] == pytest.approx(0.2)


def test_a_pool_without_label_smoothing_has_means_and_no_differences() -> None:
    entry = pool_entry("p", rows("ce", [0.5, 0.6]), [])
    assert entry["contrast"] == {"test.accuracy": None}
    assert entry["rows"][0]["difference"] is None


def test_numbers_that_no_run_has_are_left_out_and_single_holes_are_empty() -> None:
    table = rows("ce", [0.5], **{"probe.accuracy": math.nan}) + rows("poly1", [0.5], **{"probe.accuracy": 0.3})
    entry = pool_entry("p", table, ["probe.accuracy", "masks.miou"])
    assert entry["numbers"] == ["test.accuracy", "probe.accuracy"]
    assert entry["rows"][0]["means"] == [0.5, None]


def test_a_claim_is_asked_again_of_the_strengths_that_trials_chose() -> None:
    def trials(ls: tuple[float, ...], maxsup: tuple[float, ...] = (0.1, 0.9, 0.1)) -> list[dict[str, object]]:
        return [
            {"loss": f"{name} alpha={alpha}", "seed": seed, "val.accuracy": accuracy + seed / 1e4, "val.nll": 1.0}
            for name, accuracies in (("ls", ls), ("maxsup", maxsup))
            for alpha, accuracy in zip((0.05, 0.1, 0.2), accuracies, strict=False)
            for seed in (1000, 1001)
        ]

    def tuned(loss: str, made: Tables) -> tuple[str, str] | None:
        found = tuned_claim(claim(pools=["a", "b"], claim=loss, than="ls alpha=0.1"), made)
        return None if found is None else (found.claim, found.than)

    # 0.1 is better in one pool, 0.05 in both together.
    made = {"a": trials(ls=(0.5, 0.8, 0.1)), "b": trials(ls=(0.9, 0.5, 0.1))}
    assert tuned("maxsup alpha=0.1", made) == ("maxsup alpha=0.1", "ls alpha=0.05")
    assert tuned("ce", made) == ("ce", "ls alpha=0.05")
    assert tuned("reg_only alpha=0.1", made) is None
    assert tuned("maxsup alpha=0.1", {}) is None
    # Trials that are not all there choose nothing.
    assert tuned("ce", made | {"b": trials(ls=(0.9, 0.5))}) is None


# --- from runs to results


def test_runs_of_a_pool_become_a_csv_without_trials_and_without_what_is_not_finished(tmp_path: Path) -> None:
    study = load_study("fig_logit_analysis")
    folder = lay_out(study.at("small"), tmp_path / "study")
    trials = lay_out(trials_of(study.at("small"), ["ls"]), tmp_path / "tuning")
    names = sorted(folder.runs)
    for name in [*names[:-1], *trials.runs]:
        finish_run(tmp_path / "runs" / name, 0.25 if "-ce-" in name else 0.75)
        (tmp_path / "runs" / name / "timing.jsonl").write_text('{"seconds": 2.0}\n{"seconds": 1.5}\n')
    analysis = tmp_path / "runs" / names[0] / "analysis"
    analysis.mkdir()
    result = {"facts": {"split": "test"}, "numbers": {"near_zero_share": {"value": 1 / 3}}, "data": {}}
    (analysis / "logits-test.json").write_text(json.dumps(result))
    assert collect(tmp_path / "runs", tmp_path / "results") == {"c10": len(names) - 1}
    lines = (tmp_path / "results" / "c10.csv").read_text().splitlines()
    assert lines[0].startswith("loss,seed,logits.near_zero_share,test.accuracy")
    assert lines[1].startswith("ce,0,0.333333,0.25,")
    [rows] = read_tables(tmp_path / "results").values()
    assert {row["loss"] for row in rows} == {"ce", "ls alpha=0.1", "maxsup alpha=0.1", "logit_penalty beta=0.002"}
    assert math.isnan(rows[1]["logits.near_zero_share"])
    assert rows[-1]["timing.relative_seconds"] == 1.0
    origin = json.loads((tmp_path / "results" / "origin.json").read_text())["c10"]
    assert (origin["torch"], origin["num_runs"]) == (["2"], len(names) - 1)
    trial = (tmp_path / "results" / "trials" / "c10.csv").read_text().splitlines()
    assert trial[0] == "loss,seed,val.accuracy,val.nll"
    assert [line.rsplit(",", 2)[0] for line in trial[1:3]] == ["ls alpha=0.05,1000", "ls alpha=0.05,1001"]
    before = (tmp_path / "results" / "c10.csv").read_bytes()
    collect(tmp_path / "runs", tmp_path / "results")
    assert (tmp_path / "results" / "c10.csv").read_bytes() == before


def test_a_pool_may_be_collected_from_several_machines(tmp_path: Path) -> None:
    folder = lay_out(load_study("fig_logit_analysis").at("small"), tmp_path / "study")
    first, *others = sorted(folder.runs)
    timing = '{"seconds": 1800.0, "cpu_seconds": 900.0}\n'
    for name, accuracy in [(first, 0.25), (others[0], 0.5)]:
        finish_run(tmp_path / "runs" / name, accuracy)
        (tmp_path / "runs" / name / "timing.jsonl").write_text(timing)
    collect(tmp_path / "runs", tmp_path / "results")
    (tmp_path / "runs" / first / "summary.json").unlink()
    finish_run(tmp_path / "runs" / others[0], 0.75)
    assert collect(tmp_path / "runs", tmp_path / "results", keep=True) == {"c10": 2}
    [rows] = read_tables(tmp_path / "results").values()
    assert [row["test.accuracy"] for row in rows] == [0.25, 0.75]
    assert rows[0]["timing.fastest_seconds"] == 900.0
    origin = json.loads((tmp_path / "results" / "origin.json").read_text())["c10"]
    assert (origin["num_runs"], origin["hours"]) == (2, 1.0)
    assert collect(tmp_path / "runs", tmp_path / "results") == {"c10": 1}


def test_collecting_the_same_runs_again_changes_nothing(tmp_path: Path) -> None:
    folder = lay_out(load_study("fig_logit_analysis").at("small"), tmp_path / "study")
    for name in sorted(folder.runs)[:2]:
        finish_run(tmp_path / "runs" / name, 0.5)
        (tmp_path / "runs" / name / "timing.jsonl").write_text('{"seconds": 1800.0}\n')
        collect(tmp_path / "runs", tmp_path / "results", keep=True)
    (tmp_path / "runs" / name / "summary.json").unlink()  # its line stays, and so do its hours
    before = {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()}
    for _ in range(2):
        collect(tmp_path / "runs", tmp_path / "results", keep=True)
        assert {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()} == before
    origin = read_json(tmp_path / "results" / "origin.json")["c10"]
    assert (origin["num_runs"], origin["hours"]) == (2, 1.0)


def test_times_of_runs_that_were_collected_apart_are_not_compared(tmp_path: Path) -> None:
    folder = lay_out(load_study("fig_logit_analysis").at("small"), tmp_path / "study")
    plain, other = (
        next(name for name in folder.runs if name.startswith(f"c10-{loss}-s0")) for loss in ("ce", "maxsup")
    )
    for name in (plain, other):
        finish_run(tmp_path / "runs" / name, 0.5)
        (tmp_path / "runs" / name / "timing.jsonl").write_text('{"seconds": 9.0, "cpu_seconds": 3.0}\n')
        collect(tmp_path / "runs", tmp_path / "results", keep=True)
        (tmp_path / "runs" / name / "summary.json").unlink()
    [rows] = read_tables(tmp_path / "results").values()
    shares = {row["loss"]: row["timing.relative_seconds"] for row in rows}
    assert shares["ce"] == 1.0
    assert math.isnan(shares["maxsup alpha=0.1"])


def test_a_folder_without_finished_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"which holds none\. Run a study first"):
        collect(tmp_path, tmp_path / "results")


# --- pages


def test_pages_say_what_the_results_say_and_keep_what_was_written_by_hand(tmp_path: Path) -> None:
    for name in (CLAIMS, SETTINGS):
        (tmp_path / name).write_text(re.sub(r"\{[^}]+\}", "a number", (EVIDENCE / name).read_text()))
    (tmp_path / "README.md").write_text(f"# Ours\n\n{MARKS}\nold\n<!-- end of claims -->\n\nBy hand.\n")
    results = tmp_path / RESULTS
    results.mkdir()
    lines = [
        f"{loss},{seed},{0.3 + gain + seed / 1000}"
        for loss, gain in (("ls alpha=0.1", 0), ("maxsup alpha=0.1", 0.02))
        for seed in range(6)
    ]
    lines += [f"ls alpha=0.2,{seed},{0.31 + seed / 1000}" for seed in range(6)]
    (results / "c100.csv").write_text("\n".join(["loss,seed,test.accuracy", *lines]) + "\n")
    (results / TRIALS).mkdir()
    chosen = ("maxsup alpha=0.1", "ls alpha=0.2")
    tried = [
        f"{loss},{seed},{0.4 if loss in chosen else 0.3},2"
        for loss in (f"{name} alpha={alpha}" for name in ("maxsup", "ls") for alpha in (0.05, 0.1, 0.2))
        for seed in (1000, 1001)
    ]
    (results / TRIALS / "c100.csv").write_text("\n".join(["loss,seed,val.accuracy,val.nll", *tried]) + "\n")
    for _ in range(2):
        others = (sweep_entries(tmp_path), pool_entries(tmp_path), strength_entries(results))
        written = write_evidence(tmp_path, claim_entries(tmp_path), *others)
        page = (tmp_path / "README.md").read_text()
    assert page.startswith("# Ours\n")
    assert page.endswith("By hand.\n")
    assert "old" not in page
    found = verdicts_in(page)
    assert found == {entry["name"]: entry["word"] for entry in claim_entries(tmp_path)}
    assert (found["accuracy"], found["masks"]) == ("confirmed", "inconclusive")
    assert "+2.00 points [+2.00, +2.00]" in page
    assert (tmp_path / "claims" / "accuracy.md").read_text().count("| 32 | 30 | +2 |") == 1
    losses = "maxsup alpha=0.1 against ls alpha=0.2 | different: 0.1 against 0.2"
    assert f"| [accuracy](claims/accuracy.md) | {losses} | +1.00 points [+1.00, +1.00] | confirmed" in page
    assert "(maxsup alpha=0.1 minus ls alpha=0.2): +1.00 points" in (tmp_path / "claims" / "accuracy.md").read_text()
    assert {tmp_path / "figures" / name for name in ("claims.png", "strengths.svg")} <= set(written)
    assert (tmp_path / "figures" / "accuracy.svg") in written
    caption = "95 % interval over seeds, the margin in grey](../figures/accuracy.svg)"
    assert caption in (tmp_path / "claims" / "accuracy.md").read_text()
    assert "No results yet." in (tmp_path / "claims" / "masks.md").read_text()


def test_a_claim_without_a_setting_or_with_an_unknown_one_is_refused_in_a_sentence(tmp_path: Path) -> None:
    claims = (EVIDENCE / CLAIMS).read_text()
    (tmp_path / CLAIMS).write_text(claims)
    (tmp_path / SETTINGS).write_text("c10: {size: small, scale: small, limits: many}\n")
    with pytest.raises(ValueError, match=r"setting of claim 'accuracy' of claims\.yaml must be one of settings.yaml"):
        claim_entries(tmp_path)
    (tmp_path / CLAIMS).write_text(claims.replace("  setting: c100\n", "", 1))
    with pytest.raises(ValueError, match=r"setting in claim accuracy of claims\.yaml must be given"):
        claim_entries(tmp_path)


def test_a_page_without_a_place_for_the_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Ours\n")
    with pytest.raises(MaxsupError, match="must hold the lines"):
        write_evidence(tmp_path, [], [], [])


# --- the evidence of this package


@pytest.fixture(scope="module")
def entries() -> list[dict[str, Any]]:
    return claim_entries(EVIDENCE)


@pytest.fixture(scope="module")
def planned() -> list[PlannedRun]:
    return [run for study in small_studies() for run in study.at("small").runs()]


def small_studies() -> list[Study]:
    return [study for study in map(load_study, study_names()) if "small" in study.scales]


def test_every_page_is_what_its_results_make_of_it(entries: list[dict[str, Any]]) -> None:
    # If this fails: python -m tools.evidence.first report
    pages = pages_of(EVIDENCE, entries, pool_entries(EVIDENCE), prose_entries(EVIDENCE, entries))
    names = {path.relative_to(EVIDENCE.parents[1]).as_posix() for path in pages}
    assert {"README.md", "docs/evidence/README.md", "docs/evidence/pools.md", "docs/evidence/claims/cost.md"} <= names
    assert [str(path) for path, text in pages.items() if path.read_text() != text] == []


def test_a_digit_that_is_changed_in_a_sentence_is_found(entries: list[dict[str, Any]], tmp_path: Path) -> None:
    headline, *_ = prose_entries(EVIDENCE, entries)
    marks = f"<!-- {headline['name']}: written by tools.evidence.first -->", f"<!-- end of {headline['name']} -->"
    (tmp_path / "README.md").write_text(f"{MARKS}\n<!-- end of claims -->\n{marks[0]}\n+0.91 points\n{marks[1]}\n")
    made = pages_of(tmp_path, [], [], [headline | {"page": "README.md"}])[tmp_path / "README.md"]
    assert "+0.91 points" not in made
    assert "+0.90 points [+0.35, +1.44]" in made


def test_corrected_p_is_that_of_a_family_of_claims_about_the_same_pools(entries: list[dict[str, Any]]) -> None:
    family = [entry for entry in entries if entry["pools"] == ("c100",)]
    assert [entry["name"] for entry in family] == ["accuracy", "rising_alpha", "schedule_of_alpha"]
    differences = [[own - other for _, own, other in entry["values"]] for entry in family]
    corrected = holm([student_p_value(values) for values in differences])
    assert [entry["holm_p"] for entry in family[:2]] == pytest.approx(corrected[:2])
    assert [entry["holds_after_correction"] for entry in family] == [True, False, False]
    assert family[1]["word"] == "confirmed"


def test_equality_is_shown_with_the_interval_that_it_is_judged_by(entries: list[dict[str, Any]]) -> None:
    [found] = [entry for entry in entries if entry["name"] == "within_maxsup"]
    differences = [own - other for _, own, other in found["values"]]
    assert (found["equal_low"], found["equal_high"]) == pytest.approx(student_interval(differences, 0.1))
    assert found["word"] == "no difference within the margin"
    assert found["low"] < -found["margin"] < found["equal_low"]


def test_every_claim_is_about_losses_and_pools_that_studies_train_and_stands_in_the_protocol(
    planned: list[PlannedRun],
) -> None:
    trained = {(run.pool, run.recipe.loss.label) for run in planned}
    protocol = (EVIDENCE / "protocol.md").read_text()
    claims = read_claims(EVIDENCE)
    assert len(claims) == 19
    for name, found in claims.items():
        assert {(pool, loss) for pool in found.pools for loss in (found.claim, found.than)} <= trained, name
        assert f"| `{name}` | {found.label} | `{found.number}` of {', '.join(found.pools)} |" in protocol
        assert f"| {found.claim} against {found.than} | {found.direction} | {found.margin:g}" in protocol


def test_what_was_planned_and_not_run_is_listed_under_deviations(planned: list[PlannedRun]) -> None:
    run = {(pool, row["loss"]) for pool, rows in read_tables(EVIDENCE / RESULTS).items() for row in rows}
    asked = {(run.pool, run.recipe.loss.label) for run in planned}
    listed = (EVIDENCE / "protocol.md").read_text().partition("**Planned at this scale and not run**")[2]
    words = set(re.findall(r"`(.+?)`", " ".join(listed.partition("\n- **")[0].split())))
    assert {word for pair in asked - run for word in pair} <= words
    assert {loss for _, loss in asked - run} == {word for word in words if " " in word or word == "adaptive_ls"}


def test_the_scale_of_a_setting_has_the_parameters_of_its_network(planned: list[PlannedRun]) -> None:
    settings, claims = read_yaml(EVIDENCE / SETTINGS), read_claims(EVIDENCE)
    recipes = {run.pool: run.recipe for run in planned}
    small = {claim.setting: claim.pools[0] for claim in claims.values() if claim.setting not in ("ft", "seg")}
    counts = {}
    for setting, pool in small.items():
        model = recipes[pool].model
        num_classes = 100 if recipes[pool].data.name == "cifar100" else 10
        network = create_model(model.name, num_classes, classifier=model.classifier, image_size=32, **model.options)
        counts[setting] = f"{sum(each.numel() for each in network.parameters() if each.requires_grad):,} parameters"
        assert settings[setting]["size"].startswith(counts[setting]), setting
    # The networks of six convolutions differ in their number of classes.
    notes = [study.scales["small"].note for study in small_studies()]
    said = {count for note in notes for count in re.findall(r"convolutions \(([\d,]+ parameters)\)", note)}
    assert said == {counts["c10"], counts["c100"]}


def test_the_training_images_of_a_setting_are_those_that_are_not_held_out() -> None:
    settings = read_yaml(EVIDENCE / SETTINGS)
    for setting, per_class, num_classes in (("c10", 5000, 10), ("c100", 125, 100)):
        kept, _ = stratified_split(torch.arange(num_classes).repeat_interleave(per_class), 0.1, 0)
        assert f" {len(kept):,} training images" in settings[setting]["size"]


def test_the_number_of_claims_about_the_head_that_divides_logits_is_told(
    entries: list[dict[str, Any]], planned: list[PlannedRun]
) -> None:
    recipes = {run.pool: run.recipe for run in planned}
    models = [recipes[entry["pools"][0]].model for entry in entries]
    scaled = sum((model.name, model.classifier) == ("airnet", "linear") for model in models)
    words = {15: "fifteen", 19: "nineteen"}
    assert f"{words[scaled]} of {words[len(entries)]} are about one network" in (EVIDENCE / "README.md").read_text()


def test_published_ranges_are_those_of_the_tables() -> None:
    def gains(name: str) -> dict[str, float]:
        [table] = load_study(name).published
        rows = zip(table.columns, table.rows["maxsup"], table.rows["ls"], strict=True)
        return {column: own.mean - other.mean for column, own, other in rows}

    claims = read_claims(EVIDENCE)
    steps, main = gains("tab_general_training"), gains("tab_comparison_new")
    probes = gains("tab_extended_feature")
    first = main.pop("cifar100_resnet18")
    assert claims["schedule_of_training"].paper.startswith(f"+{min(steps.values()):.2f} to +{max(steps.values()):.2f} ")
    assert claims["accuracy"].paper.startswith(f"+{first:.2f} points (CIFAR-100, ResNet-18)")
    assert f"+{min(main.values()):.2f} to +{max(main.values()):.2f} on" in claims["accuracy"].paper
    assert f"+{probes['cifar100']:.2f} (CIFAR-100)" in claims["transfer"].paper
    assert f"{probes['cifar100']:.2f} points" in claims["transfer"].note


def test_the_protocol_names_the_number_of_test_images_of_every_set() -> None:
    protocol, tables = (EVIDENCE / "protocol.md").read_text(), read_tables(EVIDENCE / RESULTS)
    sets = {"c10": "CIFAR-10", "c100": "CIFAR-100", "ft_cub": "CUB", "ft_flowers": "Flowers", "ft_pets": "Pets"}
    for pool, name in sets.items():
        assert re.search(rf"{tables[pool][0]['test.n']:,.0f}\s+of {name}\b", protocol), name
