from itertools import combinations

from maxsup.lab.figures.logits import smoothing_figure


def test_labels_of_plateaus_that_lie_close_stand_one_above_another() -> None:
    curve = ([0.0, 15.0, 30.0], [1.0, 2.0]), ([0.0, 1.0], [0.1, 0.2])
    plateaus = {0.05: 5.4, 0.1: 5.2, 0.2: 5.0}
    figure = smoothing_figure(*curve, plateaus=plateaus, estimate=None, level=None, width=6.6)
    figure.draw_without_rendering()
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts] == ["0.05", "0.1", "0.2"]
    boxes = [text.get_window_extent() for text in texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
