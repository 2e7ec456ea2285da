"""Checks of arguments: the advice is about the argument that is wrong."""

import pytest

from maxsup.core.checks import check_choice, check_number


@pytest.mark.parametrize(
    ("options", "value", "sentence"),
    [
        ({}, -1, "margin must be a number of at least 0; got -1. Use 0 to switch the term off."),
        ({"at_low": "for MaxSup"}, -1, "margin must be a number of at least 0; got -1. Use 0 for MaxSup."),
        ({"above": True}, 0, "margin must be a number above 0; got 0. Use a small positive value."),
        ({"high": 5.0}, 7, "margin must be at most 5; got 7. Use a smaller one."),
        ({}, float("nan"), "margin must be a number of at least 0; got nan. Use 0 to switch the term off."),
        ({}, float("inf"), "margin must be at most 1e+30; got inf. Use a smaller one."),
    ],
)
def test_the_advice_on_a_number_is_of_that_number(options: dict, value: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        check_number("margin", value, **options)
    assert str(error.value) == sentence


def test_a_number_in_quotes_and_a_word_with_a_slip_are_named() -> None:
    with pytest.raises(TypeError, match=r"margin must be a number; got '1'\. Write it without quotes"):
        check_number("margin", "1")
    with pytest.raises(ValueError, match=r"mode must be one of 'sum', 'mean'; got 'men'\. Did you mean 'mean'\?"):
        check_choice("mode", "men", ("sum", "mean"))
