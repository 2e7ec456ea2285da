"""Numbers in sentences are those of the results."""

import re
from pathlib import Path

import pytest

from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.recipes import read_yaml
from tools.evidence.first.contrasts import combined, number_of
from tools.evidence.first.pools import Tables, read_tables
from tools.evidence.first.prose import PROSE, filled, wrapped

EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "evidence"

CLAIM = {"name": "gain", "word": "confirmed", "holm_p": 0.0123, "pools": ("p",), "number": "test.accuracy"}
CLAIM |= {"values": ((0, 3.0, 1.0), (1, 2.0, 1.0), (2, 1.1, 1.0)), "tuned": {"claim": "a alpha=0.2", "than": "b"}}


def tables(*differences: float) -> Tables:
    rows = [{"loss": "b", "seed": seed, "test.accuracy": 0.5, "test.ece": 0.1} for seed in range(len(differences))]
    own = [
        row | {"loss": "a alpha=0.1", "test.accuracy": 0.5 + value}
        for row, value in zip(rows, differences, strict=True)
    ]
    stronger = [row | {"loss": "a alpha=0.2", "test.accuracy": row["test.accuracy"] + 0.1} for row in own]
    return {"p": rows + own + stronger}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("test.accuracy of p: b", "50.00"),
        ("test.accuracy of p: b; 0 digits", "50"),
        ("test.accuracy of p: a alpha=0.1 - b", "+2.00 points [-0.48, +4.48]"),
        ("test.accuracy of p: a alpha=0.1 - b; 90 %; interval", "[+0.31, +3.69]"),
        ("test.accuracy of p: a alpha=0.1 - b; without seed 2; mean", "+1.50"),
        ("test.accuracy of p: a alpha=0.1 -\n  1/2 b; mean", "+27.00"),
        ("test.ece of p, p: a alpha=0.1 - b", "+0.000 [+0.000, +0.000]"),
        ("verdict of gain", "confirmed"),
        ("holm p of gain", "0.012"),
        ("tuned losses of gain", "a alpha=0.2 against b"),
        ("tuned gain; 1 digit", "+12.0 points [+9.5, +14.5]"),
        ("single seeds that decide gain", "3 of 3"),
        ("pools", "1"),
    ],
)
def test_a_place_is_filled_by_what_it_names(place: str, text: str) -> None:
    assert filled(f"It is {{{place}}}.", tables(0.01, 0.02, 0.03), [CLAIM]) == f"It is {text}."


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("accuracy", "must name a number; got 'accuracy'"),
        ("test.accuracy of p: c", "which has none in common"),
        ("test.nothing of p: b", "must have a number of the results; got 'test.nothing'"),
        ("test.accuracy of p: b; bold", "got 'bold'"),
        ("verdict of nothing", "must name a claim; got 'nothing'"),
    ],
)
def test_a_place_that_names_nothing_is_refused(place: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        filled(f"{{{place}}}", tables(0.01, 0.02), [CLAIM])


def test_a_change_in_the_results_changes_the_sentence() -> None:
    text = "{test.accuracy of p: a alpha=0.1 - b}"
    assert filled(text, tables(0.01, 0.02), []) != filled(text, tables(0.01, 0.03), [])


def test_weighted_sums_are_taken_within_a_seed_and_only_where_all_losses_ran() -> None:
    found = tables(0.01, 0.02)
    found["p"].pop(0)  # b, seed 0
    weights = {"a alpha=0.1": 1.0, "b": -2.0}
    assert combined(found, ["p"], "test.accuracy", weights) == {1: pytest.approx(-0.48)}


def test_confidence_is_put_together_from_right_and_wrong_predictions() -> None:
    row = {"test.accuracy": 0.75, "test.confidence_correct": 0.8, "test.confidence_wrong": 0.4}
    assert number_of(row, "test.gap") == pytest.approx(0.4)
    assert number_of(row, "test.overconfidence") == pytest.approx(0.75 * 0.8 + 0.25 * 0.4 - 0.75)


def test_lines_are_joined_and_broken_within_paragraphs_and_items() -> None:
    text = f"One\ntwo.\n\n- {'word ' * 30}\n  end\n- next\n![a picture](b.svg)\n"
    found = wrapped(text).splitlines()
    assert found[:2] == ["One two.", ""]
    assert found[2].startswith("- word")
    assert found[3].startswith("  word")
    assert found[-2:] == ["- next", "![a picture](b.svg)"]


STRENGTHS = {"0.05", "0.1", "0.2", "0.3"}


def written_by_hand() -> list[tuple[str, str]]:
    texts = [(name, each["text"]) for name, each in read_yaml(EVIDENCE / PROSE).items()]
    for file in ("claims.yaml", "settings.yaml"):
        for name, values in read_yaml(EVIDENCE / file).items():
            texts += [(f"{name}: {key}", values[key]) for key in ("note", "caveat", "limits") if key in values]
    return texts


@pytest.mark.parametrize(("name", "text"), written_by_hand(), ids=lambda value: value if len(value) < 40 else "")
def test_no_result_is_written_by_hand(name: str, text: str) -> None:
    rest = re.sub(r"\{[^{}]+\}", "", text)
    known = STRENGTHS | {"0.005", f"{1000 / 999:.3f}"}  # the margin of variation, and K / (K - 1) of ImageNet
    known |= {"2.65"} if name == "transfer: note" else set()  # published
    assert set(re.findall(r"[+-]?\d+\.\d+", rest)) <= known
    assert re.findall(r"(?<!\w)[+-]\d|\d of \d|\d %", re.sub(r"\b(5|9[05]) %", "", rest)) == []


def readme() -> str:
    return " ".join((EVIDENCE.parents[1] / "README.md").read_text().replace("> ", "").split())


def test_an_earlier_demo_is_quoted_as_the_pool_of_its_network_has_it() -> None:
    found = read_tables(EVIDENCE / "results")
    contrast = "test.accuracy of digits_w8_8_16: maxsup alpha=0.2 - ls alpha=0.2"
    mean, interval = (filled(f"{{{contrast}; {part}}}", found, []) for part in ("mean", "interval"))
    assert f"the same seeds gave {mean[1:]} points {interval}" in readme()


def test_the_demo_of_today_is_quoted_as_its_summary_has_it() -> None:
    summary = read_json(EVIDENCE.parent / "report" / "summary.json")
    assert summary["conclusions"][0] in readme()
    [maxsup] = [entry for entry in summary["losses"] if entry["loss"] == "maxsup_0_2"]
    difference, low, high = (100 * maxsup["metrics"]["accuracy"][key] for key in ("difference", "low", "high"))
    assert low < 0 < high
    assert (
        f"Accuracy is {difference:.2f} points higher, with an interval that holds 0 [{low:+.2f}, {high:+.2f}]"
        in readme()
    )
