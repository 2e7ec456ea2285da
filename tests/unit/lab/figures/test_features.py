from itertools import combinations
from typing import Any

from maxsup.lab.figures.features import collapse_figure, collapse_figures, projection_figures
from maxsup.lab.figures.style import run_looks

LOOKS = run_looks({"CE": "ce", "LS": "ls"})


def collapse_result(split: str) -> dict[str, Any]:
    numbers = {f"{name}_{key}": {"value": 0.5} for name in ("train", "val", "test") for key in ("within", "r_squared")}
    return {"facts": {"loss": "ce", "split": split}, "numbers": numbers}


def plane(scale: float) -> dict[str, Any]:
    groups = [[[scale * place, 1.0], [0.0, scale]] for place in range(3)]
    data = {"classes": ["1", "7", "8"], "basis": "templates", "points": {"train": groups, "test": groups}}
    return {"facts": {"loss": "ce"}, "data": data}


def test_a_dot_lies_where_its_numbers_say() -> None:
    [axes] = collapse_figure({"test images": [("CE", 0.3, 0.4), ("LS", 0.2, 0.5)]}, LOOKS).axes
    assert {(*line.get_xdata(), *line.get_ydata()) for line in axes.get_lines()} == {(0.3, 0.4), (0.2, 0.5)}
    assert axes.get_title(loc="left") == "test images"


def test_names_stand_beside_dots_in_place_of_a_legend() -> None:
    figure = collapse_figure({"": [("CE", 0.3, 0.4), ("LS", 0.2, 0.5)]}, LOOKS, names_dots=True)
    assert {text.get_text() for text in figure.axes[0].texts} == {"CE", "LS"}
    assert figure.legends == []


def test_no_name_covers_another_name_or_a_dot_however_close_the_dots_are() -> None:
    dots = [("CE", 0.3, 0.4), ("LS", 0.301, 0.401), ("MaxSup", 0.299, 0.402), ("OLS", 0.31, 0.4)]
    looks = run_looks({"CE": "ce", "LS": "ls", "MaxSup": "maxsup", "OLS": "ols"})
    figure = collapse_figure({"": [*dots, ("far", 0.9, 0.9)]}, looks | run_looks({"far": "poly1"}), names_dots=True)
    figure.draw_without_rendering()
    [axes] = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])] == []
    spots = [axes.transData.transform(dot[1:]) for dot in dots]
    assert not any(box.contains(*spot) for box in boxes for spot in spots)


def test_the_training_split_is_drawn_beside_the_validation_split_where_it_is_judged_itself() -> None:
    for split, other in (("train", "val"), ("test", "test")):
        [figure] = collapse_figures({"CE": collapse_result(split)}).values()
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["train images", f"{other} images"]


def test_axes_are_the_same_for_all_runs_and_hold_all_samples() -> None:
    [figure] = projection_figures({"CE": plane(1.0), "LS": plane(3.0)}).values()
    [(across, up)] = {(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes}
    assert len(figure.axes) == 4
    assert across[0] < 0 < 6 < across[1]
    assert up[0] < 1 < 3 < up[1]


def test_other_classes_have_a_figure_of_their_own() -> None:
    other = plane(1.0)
    other["data"]["classes"] = ["2", "3", "4"]
    assert set(projection_figures({"CE": plane(1.0), "LS": other})) == {"projection", "projection-2"}
