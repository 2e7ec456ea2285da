import pytest

from maxsup.lab.analysis import ANALYSES
from maxsup.lab.analysis.registry import check_options

COUNTS = [(name, option) for name in ANALYSES for option in ANALYSES[name].counts]


def test_every_number_of_something_is_checked_before_anything_is_computed() -> None:
    named = {(name, option) for name in ANALYSES for option in ANALYSES.options(name) if option.startswith("num_")}
    # Segmentation may show no image at all and says so itself.
    assert set(COUNTS) == named - {("segmentation", "num_images")}
    assert len(COUNTS) == 8


@pytest.mark.parametrize(("name", "option"), COUNTS)
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "six"])
def test_a_count_below_one_or_not_whole_is_refused(name: str, option: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"{name}\.{option} must be a whole number of at least 1; got"):
        check_options(name, {option: value})


def test_a_count_may_be_none_only_where_that_means_all() -> None:
    check_options("corruption", {"num_images": None})
    with pytest.raises(ValueError, match=r"got None\. Leave it out for 6"):
        check_options("gradcam", {"num_images": None})
