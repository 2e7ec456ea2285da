import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from maxsup.core.errors import StorageError
from maxsup.lab.analysis import (
    ANALYSES,
    RunOutputs,
    analyze,
    data_label,
    draw_figures,
    label_runs,
    read_results,
    result_path,
)
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.figures.style import save
from tests.unit.lab.analysis.made import long_tail, make_run

pytestmark = pytest.mark.slow


@pytest.fixture
def runs(digit_runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Copies that a test may write to, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return [Path(shutil.copytree(path, tmp_path / path.name, symlinks=True)) for path in digit_runs]


def test_numbers_go_to_each_run_and_figures_of_several_to_one_folder(runs: list[Path]) -> None:
    done = analyze(runs, ["calibration", "collapse"])
    assert list(done.results) == ["calibration", "collapse"]
    for path in runs:
        stored = read_json(path / "analysis" / "collapse-test.json")
        assert stored["analysis"] == "collapse"
        assert stored["facts"]["loss"] == path.name
        assert stored == done.results["collapse"][stored["facts"]["label"]]
    names = {path.name for path in Path("figures").iterdir()}
    assert names == {
        f"{figure}-test.{kind}" for figure in ("reliability", "risk_coverage", "collapse") for kind in ("png", "svg")
    }
    assert {path.resolve() for path in done.files} == {
        path.resolve()
        for place in (*runs, Path("."))
        for path in place.glob("*/*-test.*")
        if "outputs" not in path.parts
    }


def test_figures_of_one_run_are_in_its_folder_and_of_other_weights_beside_them(runs: list[Path]) -> None:
    analyze(runs[:1], ["logits"])
    analyze(runs[:1], ["logits"], weights="best")
    assert {path.name for path in (runs[0] / "figures").glob("*.svg")} == {
        f"{name}-test{weights}.svg" for name in ("logits", "confidence") for weights in ("", "-best")
    }
    assert (runs[0] / "analysis" / "logits-test-best.json").is_file()


def test_results_and_figures_are_equal_to_the_byte_the_second_time(runs: list[Path], tmp_path: Path) -> None:
    contents = []
    for folder in ("one", "two"):
        done = analyze(runs, ["projection", "repair"], output=tmp_path / folder)
        contents.append([path.read_bytes() for path in done.files])
    assert len(contents[0]) == 2 * 3 + 2 * 2
    assert contents[0] == contents[1]


def test_figures_can_be_redrawn_from_run_directories_alone(runs: list[Path], tmp_path: Path) -> None:
    analyze(runs, ["collapse"], output=tmp_path / "first")
    for path in runs:
        for part in ("outputs", "checkpoints"):
            shutil.rmtree(path / part)
    found = [result for path in runs for result in read_results(path, "collapse")]
    figures = draw_figures("collapse", {result["facts"]["label"]: result for result in found})
    [png, _] = save(figures["collapse"], tmp_path / "second", "collapse-test")
    assert png.read_bytes() == (tmp_path / "first" / "collapse-test.png").read_bytes()


def test_options_have_files_of_their_own(runs: list[Path]) -> None:
    analyze(runs[:1], ["projection"])
    analyze(runs[:1], ["projection"], options={"projection": {"basis": "centroids", "num_samples": 5}})
    stored = {path.name for path in (runs[0] / "analysis").iterdir()}
    assert stored == {"projection-test.json", "projection-test-basis=centroids-num_samples=5.json"}
    assert len(read_results(runs[0], "projection")) == 2
    path = result_path(runs[0], "projection", options={"num_samples": 5, "basis": "centroids"})
    assert len(json.loads(path.read_text())["data"]["points"]["test"][0]) == 5


def test_other_data_has_a_file_of_its_own(runs: list[Path], tmp_path: Path) -> None:
    other = f"arrays:{long_tail(tmp_path)}"
    for words in ([], [f"data.name={other}"]):
        analyze(runs[:1], ["logits"], overrides=words)
    found = {result["facts"]["dataset"] for result in read_results(runs[0], "logits")}
    assert found == {"digits", other}
    assert result_path(runs[0], "logits", data=data_label(other, {})).is_file()


def test_what_does_not_apply_is_said_once_and_the_rest_goes_on(runs: list[Path]) -> None:
    done = analyze(runs, ["longtail", "logits"])
    assert done.skipped == [
        f"longtail does not apply to {', '.join(map(str, runs))}: all classes have about equally many training images "
        "(139 to 146)."
    ]
    assert list(done.results) == ["logits"]


def test_a_run_given_twice_is_analysed_once(runs: list[Path]) -> None:
    done = analyze([runs[0], runs[0] / ".." / runs[0].name], ["logits"])
    assert list(done.results["logits"]) == ["CE"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"what": ["colapse"]}, "analysis must be a registered name; got 'colapse'. Did you mean 'collapse'?"),
        ({"what": ["logits"], "split": "tets"}, "split must be one of 'train', 'val', 'test'; got 'tets'"),
        (
            {"what": ["probe"], "options": {"probe": {"tarjet": 1}}},
            "option of analysis 'probe' must be one it has; got 'tarjet'. Did you mean 'target'?",
        ),
        (
            {"what": ["logits"], "options": {"probe": {"target": "digits"}}},
            "options must be of a requested analysis; got 'probe'",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_is_computed(
    runs: list[Path], arguments: dict[str, object], sentence: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence.replace("?", "\\?")):
        analyze(runs, **arguments)  # type: ignore[arg-type]
    assert not any((path / "analysis").exists() for path in runs)


def test_no_run_at_all_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="paths must name at least one run"):
        analyze([])


def test_a_result_that_is_no_json_is_refused(runs: list[Path]) -> None:
    (runs[0] / "analysis").mkdir()
    (runs[0] / "analysis" / "logits-test.json").write_text("{")
    with pytest.raises(StorageError, match=r"logits-test\.json must be as it was written"):
        read_results(runs[0], "logits")


def test_what_an_analysis_returns_is_checked_before_it_is_written(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"numbers": {"margin": 1.0}, "data": {}}
    analysis = dataclasses.replace(ANALYSES["logits"], compute=lambda run, *, split: found)
    monkeypatch.setitem(ANALYSES._registered, "logits", (analysis, {}))
    with pytest.raises(TypeError, match="numbers of analysis 'logits' must have a value"):
        analyze(runs[:1], ["logits"])
    assert not (runs[0] / "analysis").exists()


def test_runs_of_one_loss_are_called_by_what_they_differ_in(tmp_path: Path) -> None:
    settings = {
        "a": ("ls", "loss.alpha=0.1"),
        "b": ("ls", "loss.alpha=0.2"),
        "c": ("ls", "loss.alpha=0.2", "seed=1"),
        "d": ("ce",),
        "e": ("maxsup", "loss.alpha={schedule: linear, start: 0.1, end: 0.2}"),
        "f": ("maxsup", "loss.alpha=0.1"),
    }
    runs = [RunOutputs(make_run(tmp_path / name, *words)) for name, words in settings.items()]
    expected = ["LS 0.1", "LS 0.2 seed 0", "LS 0.2 seed 1", "CE", "MaxSup 0.1..0.2", "MaxSup 0.1"]
    assert label_runs(runs) == expected
    twins = [RunOutputs(tmp_path / name) for name in ("a", "a")]
    assert len(set(label_runs([*twins[:1], RunOutputs(make_run(tmp_path / "a2", *settings["a"]))]))) == 2
