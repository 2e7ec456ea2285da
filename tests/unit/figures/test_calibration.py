from maxsup.figures.calibration import reliability_figure, risk_figure
from maxsup.figures.style import run_looks

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
