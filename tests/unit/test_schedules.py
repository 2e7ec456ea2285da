"""Schedules: frozen values that map progress in [0, 1] to a strength."""

import dataclasses
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxsup import MaxSupLoss
from maxsup.schedules import PAPER_SCHEDULES, Constant, Cosine, Linear, Piecewise, epoch_progress

STEP = Piecewise(((0.0, 0.1), (0.5, 0.2), (0.5, 0.4), (1.0, 0.0)))
ALL = [Constant(0.1), Linear(0.1, 0.2), Cosine(0.1, 0.3), STEP]


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (Constant(0.1), {0.0: 0.1, 0.3: 0.1, 1.0: 0.1}),
        (Linear(0.1, 0.2), {0.0: 0.1, 0.25: 0.125, 1.0: 0.2}),
        (Linear(0.2, 0.0), {0.75: 0.05}),
        (Cosine(0.1, 0.3), {p: 0.1 + 0.2 * (1 - math.cos(math.pi * p)) / 2 for p in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)}),
        (Cosine(0.1, 0.3), {0.0: 0.1, 0.5: 0.2, 1.0: 0.3}),
        # The later value holds from a repeated point on.
        (STEP, {0.0: 0.1, 0.25: 0.15, 0.5: 0.4, 0.75: 0.2, 1.0: 0.0}),
        # A step at either end is allowed.
        (Piecewise(((0.0, 0.1), (0.0, 0.3), (1.0, 0.3), (1.0, 0.2))), {0.0: 0.3, 0.5: 0.3, 1.0: 0.2}),
    ],
)
def test_a_schedule_has_these_values(schedule, values: dict[float, float]):
    assert {progress: schedule(progress) for progress in values} == pytest.approx(values, abs=1e-15)


def test_the_earlier_value_holds_up_to_a_repeated_point():
    assert STEP(math.nextafter(0.5, 0.0)) == pytest.approx(0.2, abs=1e-12)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
@pytest.mark.parametrize("progress", [-0.01, 1.01, math.nan, math.inf])
def test_progress_outside_of_training_is_refused(schedule, progress: float):
    with pytest.raises(ValueError, match="progress must be between 0 and 1") as error:
        schedule(progress)
    assert repr(progress) in str(error.value)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
@pytest.mark.parametrize(
    ("progress", "fix"),
    [
        ("0.5", "Write it without quotes, for instance progress=0.1."),
        (None, "Write for instance progress=0.1."),
        (torch.tensor(0.5), "Pass one number, such as float(progress)."),
        (np.array(0.5), "Pass one number, such as float(progress)."),
        (Fraction(1, 2), "Pass one number, such as float(progress)."),
        (True, "Pass one number, such as float(progress)."),
    ],
    ids=repr,
)
def test_progress_that_is_no_number_is_refused_with_what_to_pass(schedule, progress: object, fix: str):
    criterion = MaxSupLoss(schedule)
    for use in (schedule, criterion.set_progress) if criterion.schedule else (schedule,):
        with pytest.raises(TypeError) as error:
            use(progress)
        assert str(error.value) == f"progress must be a number; got {progress!r}. {fix}"


@given(
    at=st.lists(st.floats(allow_nan=True), min_size=1, max_size=3),
    values=st.lists(st.floats(allow_nan=True), min_size=5, max_size=5),
    progress=st.floats(0, 1),
)
def test_a_schedule_of_any_numbers_is_refused_or_has_a_strength_everywhere(at: list, values: list, progress: float):
    points = tuple(zip([0.0, *at, 1.0], values, strict=False))
    for make, arguments in ((Piecewise, [points]), (Linear, values[:2]), (Cosine, values[:2])):
        try:
            schedule = make(*arguments)
        except ValueError:
            continue
        assert 0 <= schedule(progress) <= 1e30


@pytest.mark.parametrize("points", [3, ((0, 0.1, 0.2), (1, 0.1)), (0, 1), None])
def test_points_must_be_pairs(points: object):
    with pytest.raises(TypeError, match=r"points must be pairs of progress and value; got .* Write for instance"):
        Piecewise(points)


@pytest.mark.parametrize("point", [("0.5", 0.1), (0.5, "0.1"), (None, 0.1), (0.5, None), (0.5, Fraction(1, 2))])
def test_a_point_must_hold_numbers(point: tuple):
    with pytest.raises(TypeError, match=r"(progress|value) must be a number; got"):
        Piecewise(((0, 0.1), point, (1, 0.1)))


@pytest.mark.parametrize(
    "points",
    [
        (),
        ((0.0, 0.1),),
        ((0.1, 0.1), (1.0, 0.2)),
        ((0.0, 0.1), (0.9, 0.2)),
        ((0.0, 0.1), (0.6, 0.2), (0.4, 0.2), (1.0, 0.3)),
        ((0.0, 0.1), (math.nan, 0.2), (1.0, 0.3)),
        ((math.nan, 0.1), (1.0, 0.3)),
    ],
)
def test_points_must_run_from_zero_to_one(points: tuple):
    with pytest.raises(ValueError, match="points must ") as error:
        Piecewise(points)
    assert "; got" in str(error.value)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_a_schedule_is_frozen(schedule):
    field = dataclasses.fields(schedule)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError) as error:
        setattr(schedule, field, 0.5)
    assert field in str(error.value)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_a_schedule_prints_as_what_makes_it_and_compares_by_value(schedule):
    for twin in (eval(repr(schedule)), pickle.loads(pickle.dumps(schedule))):
        assert twin == schedule
        assert hash(twin) == hash(schedule)


def test_schedules_of_different_kinds_differ():
    assert Linear(0.1, 0.2) != Cosine(0.1, 0.2)
    assert Linear(0.1, 0.2) != Linear(0.1, 0.3)


@pytest.mark.parametrize(
    "make", [lambda v: Constant(v), lambda v: Linear(v, 0.1), lambda v: Linear(0.1, v), lambda v: Cosine(0.1, v)]
)
def test_a_schedule_refuses_a_negative_strength(make):
    with pytest.raises(ValueError, match=r"must be .*; got -0.1"):
        make(-0.1)
    with pytest.raises(TypeError, match=r"must be a number; got '0.1'"):
        make("0.1")
    assert make(0.5)(0.5) >= 0


def test_the_paper_names_four_schedules():
    ends = {"constant": 0.1, "linear": 0.2, "linear_from_zero": 0.1, "linear_high": 0.3}
    assert {name: schedule(1.0) for name, schedule in PAPER_SCHEDULES.items()} == pytest.approx(ends, abs=1e-15)


def test_the_paper_schedules_cannot_be_changed():
    with pytest.raises(TypeError) as error:
        PAPER_SCHEDULES["linear"] = Constant(0.5)
    assert PAPER_SCHEDULES["linear"] == Linear(0.1, 0.2), error


def test_the_last_epoch_has_progress_one_and_a_single_one_zero():
    assert [epoch_progress(epoch, 5) for epoch in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert epoch_progress(0, 1) == 0.0
