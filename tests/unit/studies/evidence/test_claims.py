"""Evidence: CSV from runs, verdicts by the protocol's rule, pages that say the same."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from maxsup.core.errors import DataError, MaxsupError
from maxsup.core.files.reading import read_json
from maxsup.reports.export.evidence import BEGIN, END, verdicts_in, write_evidence
from maxsup.studies.evidence.claims import (
    CLAIMS,
    RESULTS,
    SETTINGS,
    Claim,
    Tables,
    claim_entries,
    pool_entries,
    pool_entry,
    read_claims,
    sweep_entries,
    tuned_claim,
    verdict,
    width_sweep,
)
from maxsup.studies.evidence.pools import TRIALS, collect, loss_label, read_tables, strength_entries
from maxsup.studies.expansion import expand
from maxsup.studies.study_files import load_study, study_names
from maxsup.studies.tuning import tuning
from tests.unit.studies.made import finish_run, lay_out

EVIDENCE = Path(__file__).resolve().parents[4] / "docs" / "evidence"

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
        ("higher", -1.0, 1.0, "contradicted", "other side"),
        ("lower", 1.0, 1.0, "contradicted", "other side"),
        ("higher", 0.0, 1.0, "contradicted", "equal within"),
        ("higher", 0.2, 9.0, "undecided", "holds 0"),
        ("equal", 0.1, 1.0, "confirmed", "equal within"),
        ("equal", 1.0, 1.0, "contradicted", "outside the margin"),
        ("equal", 0.3, 1.0, "undecided", "beyond the margin"),
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
    assert found.word == "undecided"
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
    assert words == ["confirmed", "undecided", "contradicted"]
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
    folder = lay_out(study, tmp_path / "study", "small")
    trials = lay_out(tuning(study, "small", ["ls"]), tmp_path / "tuning", "small")
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
    folder = lay_out(load_study("fig_logit_analysis"), tmp_path / "study", "small")
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
    folder = lay_out(load_study("fig_logit_analysis"), tmp_path / "study", "small")
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
    folder = lay_out(load_study("fig_logit_analysis"), tmp_path / "study", "small")
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
        (tmp_path / name).write_text((EVIDENCE / name).read_text())
    (tmp_path / "README.md").write_text(f"# Ours\n\n{BEGIN}\nold\n{END}\n\nBy hand.\n")
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
    assert (found["accuracy"], found["masks"]) == ("confirmed", "undecided")
    assert "+2.00 points [+2.00, +2.00]" in page
    assert (tmp_path / "claims" / "accuracy.md").read_text().count("| 32 | 30 | +2 |") == 1
    tuned = "maxsup alpha=0.1 against ls alpha=0.2 | +1.00 points [+1.00, +1.00] | confirmed"
    assert f"| [accuracy](claims/accuracy.md) | {tuned}" in page
    assert "(maxsup alpha=0.1 minus ls alpha=0.2): +1.00 points" in (tmp_path / "claims" / "accuracy.md").read_text()
    assert {tmp_path / "figures" / name for name in ("claims.png", "strengths.svg")} <= set(written)
    assert (tmp_path / "figures" / "accuracy.svg") in written
    assert "![Difference of every seed](../figures/accuracy.svg)" in (tmp_path / "claims" / "accuracy.md").read_text()
    assert "No results yet." in (tmp_path / "claims" / "masks.md").read_text()


def test_a_claim_without_a_setting_or_with_an_unknown_one_is_refused_in_a_sentence(tmp_path: Path) -> None:
    claims = (EVIDENCE / CLAIMS).read_text()
    (tmp_path / CLAIMS).write_text(claims)
    (tmp_path / SETTINGS).write_text("c10: {scale: small, limits: many}\n")
    with pytest.raises(ValueError, match=r"setting of claim 'accuracy' must be one of settings.yaml; got 'c100'\. Did"):
        claim_entries(tmp_path)
    (tmp_path / CLAIMS).write_text(claims.replace("  setting: c100\n", "", 1))
    with pytest.raises(ValueError, match=r"setting in claim accuracy of claims\.yaml must be given"):
        claim_entries(tmp_path)


def test_a_page_without_a_place_for_the_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Ours\n")
    with pytest.raises(MaxsupError, match="Put the table of claims between them"):
        write_evidence(tmp_path, [], [], [])


# --- the evidence of this package


def test_the_published_table_says_what_its_results_say() -> None:
    shown = verdicts_in((EVIDENCE / "README.md").read_text())
    expected = {entry["name"]: entry["word"] for entry in claim_entries(EVIDENCE)}
    assert shown == (expected if any((EVIDENCE / RESULTS).glob("*.csv")) else {})


def test_every_claim_is_about_losses_and_pools_that_studies_train_and_stands_in_the_protocol() -> None:
    trained = {
        (run.pool, loss_label(run.recipe.loss)) for name in study_names() for run in expand(load_study(name), "small")
    }
    protocol = (EVIDENCE / "protocol.md").read_text()
    claims = read_claims(EVIDENCE)
    assert len(claims) == 19
    for name, found in claims.items():
        assert {(pool, loss) for pool in found.pools for loss in (found.claim, found.than)} <= trained, name
        assert f"| `{name}` | {found.label} | `{found.number}` of {', '.join(found.pools)} |" in protocol
        assert f"| {found.claim} against {found.than} | {found.direction} | {found.margin:g}" in protocol
