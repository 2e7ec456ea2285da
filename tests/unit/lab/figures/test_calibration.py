from maxsup.lab.figures.calibration import reliability_figure, repair_figures, risk_figure
from maxsup.lab.figures.style import run_looks

LOOKS = run_looks({"CE": "ce"})
BINS = {"edges": [0.0, 0.5, 1.0], "count": [5, 15], "confidence": [0.4, 0.9], "accuracy": [0.2, 0.8]}


def test_bins_with_few_samples_are_hollow_and_shares_stand_below() -> None:
    above, below = reliability_figure({"CE": BINS}, LOOKS).axes
    faces = {
        line.get_xdata()[0]: line.get_markerfacecolor() for line in above.get_lines() if line.get_marker() != "None"
    }
    assert faces == {0.4: "white", 0.9: LOOKS["CE"].color}
    assert list(below.patches[0].get_data().values) == [25.0, 75.0]


def test_risk_is_drawn_in_percent() -> None:
    [axes] = risk_figure({"CE": {"coverage": [0.5, 1.0], "risk": [0.1, 0.2]}}, LOOKS).axes
    curve, end = axes.get_lines()
    assert list(curve.get_xdata()) == [50.0, 100.0]
    assert list(curve.get_ydata()) == [10.0, 20.0]
    assert list(end.get_ydata()) == [20.0]


def test_marks_of_a_repair_are_filled_before_and_hollow_after_also_for_another_run_of_a_loss() -> None:
    numbers = {f"{name}_{when}": {"value": 1.0} for name in ("nll", "ece", "aurc") for when in ("before", "after")}
    result = {"facts": {"loss": "ls"}, "numbers": numbers}
    [figure] = repair_figures({"LS 0.1": result, "LS 0.2": result}).values()
    marks = [line for line in figure.axes[0].get_lines() if line.get_marker() != "None"]
    assert {line.get_fillstyle() for line in marks} == {"full"}
    assert [line.get_markerfacecolor() == "white" for line in marks] == [False, True] * 2
