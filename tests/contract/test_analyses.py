"""Every analysis: named numbers that JSON can hold, figures from that JSON alone, fit to be printed in a column."""

import inspect
import itertools
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from maxsup.lab.analysis import ANALYSES, RunOutputs, describe_analyses, draw_figures
from maxsup.lab.core.files.storage import json_text
from maxsup.lab.figures.style import LOOKS, save, styled
from maxsup.metrics.facts import fact
from tests.unit.lab.analysis.made import special_runs

pytestmark = pytest.mark.slow

NAMES = ANALYSES.names()
CHEAP: dict[str, dict[str, Any]] = {
    "corruption": {"num_images": 20},
    "collapse": {"num_resamples": 10},
    "calibration": {"num_resamples": 10},
    "distillation": {"overrides": ["epochs=1", "model.options={widths: [8, 8]}"]},
}
FIGURES = {
    "calibration": {"reliability", "risk_coverage"},
    "collapse": {"collapse"},
    "conformal": {"conformal"},
    "corruption": {"corruption", "corruption_map"},
    "distillation": {"distillation"},
    "gradcam": {"gradcam"},
    "logits": {"logits", "confidence"},
    "longtail": {"longtail"},
    "ood": {"ood"},
    "probe": {"probe", "factors"},
    "projection": {"projection"},
    "repair": {"repair"},
    "segmentation": {"segmentation", "segmentation-classes"},
}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return special_runs(tmp_path_factory.mktemp("contract"))


def run_for(name: str, made: dict[str, Path]) -> Path:
    """The run that an analysis applies to."""
    return made[{"longtail": "tail", "segmentation": "masks"}.get(name, "drawn")]


@pytest.fixture
def result(request: pytest.FixtureRequest, made: dict[str, Path]) -> dict[str, Any]:
    """The result of an analysis as it is read back from its file."""
    name = request.getfixturevalue("name")
    return _result(name, run_for(name, made))


@cache
def _result(name: str, path: Path) -> dict[str, Any]:
    run = RunOutputs(path)
    assert ANALYSES[name].obstacle(run, split="test") is None
    found = ANALYSES[name].compute(run, split="test", **CHEAP.get(name, {}))
    return json.loads(json_text({"facts": run.facts("test"), **found}))


@cache
def _figures(name: str, num_losses: int, path: Path) -> dict[str, Figure]:
    return draw_figures(name, beside(_result(name, path), SIX if num_losses == 6 else THREE))


@pytest.fixture
def figures(request: pytest.FixtureRequest, made: dict[str, Path]) -> dict[str, Figure]:
    """What is drawn of three losses side by side."""
    name = request.getfixturevalue("name")
    return _figures(name, 3, run_for(name, made))


def beside(result: dict[str, Any], labels: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The same result as that of other losses."""
    return {label: {**result, "facts": {**result["facts"], "loss": loss}} for label, loss in labels.items()}


THREE = {"CE": "ce", "LS": "ls", "MaxSup": "maxsup"}
SIX = {LOOKS[loss].label: loss for loss in ("ce", "ls", "ols", "zipf_ls", "maxsup", "logit_penalty")}


def test_all_analyses_are_listed() -> None:
    assert set(FIGURES) <= set(NAMES)
    assert [row["name"] for row in describe_analyses()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_analysis_says_what_it_is_and_what_its_options_are(name: str) -> None:
    facts, analysis = ANALYSES.facts(name), ANALYSES[name]
    assert set(facts) == {"summary", "paper"}
    assert 20 < len(facts["summary"]) < 110
    assert analysis.compute.__doc__
    parameters = list(inspect.signature(analysis.compute).parameters.values())[1:]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    assert ANALYSES.options(name).keys() == {parameter.name for parameter in parameters} - {"split"}
    for option in ANALYSES.options(name):
        assert f"{option}: " in analysis.compute.__doc__


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_named_directed_and_finite_or_absent(name: str, result: dict[str, Any]) -> None:
    numbers = result["numbers"]
    assert numbers
    for key, entry in numbers.items():
        assert key.isidentifier()
        assert (entry["direction"], entry["unit"]) == (fact(key).direction, fact(key).unit)
        assert entry["value"] is None or isinstance(entry["value"], float)
        if entry.get("low") is not None:
            assert entry["low"] <= entry["value"] <= entry["high"]
    assert sum(entry["value"] is not None for entry in numbers.values()) >= len(numbers) / 2


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_machine_is_in_a_result(name: str, result: dict[str, Any], made: dict[str, Path]) -> None:
    text = json.dumps(result["data"]) + json.dumps(result["numbers"])
    assert str(made["drawn"].parent) not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn_from_the_stored_result(name: str, figures: dict[str, Figure], tmp_path: Path) -> None:
    assert set(figures) == FIGURES.get(name, set(figures)) != set()
    for stem, figure in figures.items():
        png, svg = save(figure, tmp_path, stem)
        assert png.stat().st_size > 5_000
        assert svg.read_text().startswith("<?xml")


@pytest.mark.parametrize("name", NAMES)
def test_axes_are_labelled_and_losses_are_named(name: str, figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        words = " ".join(text.get_text() for text in texts(figure))
        assert all(label in words for label in THREE)
        assert any(axes.get_xlabel() for axes in figure.axes) or figure.get_supxlabel()
        assert any(axes.get_ylabel() or any(tick.get_text() for tick in axes.get_yticklabels()) for axes in figure.axes)


@pytest.mark.parametrize("name", NAMES)
def test_no_text_lies_on_another_or_leaves_the_page(name: str, figures: dict[str, Figure]) -> None:
    assert {stem: overlaps(figure) for stem, figure in figures.items()} == {stem: [] for stem in figures}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_six_losses_with_long_names_find_room_too(name: str, made: dict[str, Path]) -> None:
    found = _figures(name, 6, run_for(name, made))
    assert {stem: overlaps(figure) for stem, figure in found.items()} == {stem: [] for stem in found}


def test_long_names_of_classes_find_room_in_the_gallery(made: dict[str, Path]) -> None:
    found = json.loads(json.dumps(_result("gradcam", made["drawn"])))
    names = (
        "german_shorthaired_pointer",
        "Maine_Coon",
        "staffordshire_bull_terrier",
        "american_pit_bull",
        "Norwegian_forest_cat",
    )
    for cell, name in zip(found["data"]["cells"], (*names, "Egyptian_Mau"), strict=True):
        cell["label"], cell["predicted"] = name, names[-1]
    [figure] = draw_figures("gradcam", beside(found, THREE)).values()
    assert overlaps(figure) == []


def test_the_search_for_overlaps_finds_a_planted_one() -> None:
    figure = Figure(figsize=(3.4, 3))
    axes = figure.subplots()
    axes.text(0.5, 0.5, "one")
    axes.text(0.52, 0.5, "two")
    assert overlaps(figure) == [("one", "two")]


def texts(figure: Figure) -> Iterator[Text]:
    """Everything written that is visible and not empty."""
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            yield text


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes meet, and texts that reach out of the figure."""
    canvas = FigureCanvasAgg(figure)
    with styled():
        canvas.draw()
    page, hidden = figure.bbox.padded(1), ticks_outside(figure)
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()).padded(-1))
        for text in texts(figure)
        if id(text) not in hidden
    ]
    pairs = itertools.combinations([(text, box) for text, box in boxes if box.width > 0], 2)
    found = [(one, other) for (one, box), (other, beside) in pairs if box.overlaps(beside)]
    for text, box in boxes:
        if not (page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1)):
            found.append((text, "edge of the page"))
    return found


def ticks_outside(figure: Figure) -> set[int]:
    """Labels of ticks beyond the limits of their axis, which exist but are not drawn."""
    hidden: set[int] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            drawn = {id(tick) for tick in axis._update_ticks()}
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if id(tick) not in drawn:
                    hidden |= {id(tick.label1), id(tick.label2)}
    return hidden
