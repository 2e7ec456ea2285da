"""Schedules: frozen values that map progress in [0, 1] to a strength."""

import dataclasses
import math
import pickle

import pytest

from maxsup.schedules import PAPER_SCHEDULES, Constant, Cosine, Linear, Piecewise, epoch_progress

STEP = Piecewise(((0.0, 0.1), (0.5, 0.2), (0.5, 0.4), (1.0, 0.0)))
ALL = [Constant(0.1), Linear(0.1, 0.2), Cosine(0.1, 0.3), STEP]


def test_constant_never_changes():
    assert [Constant(0.1)(p) for p in (0.0, 0.3, 1.0)] == [0.1, 0.1, 0.1]


def test_linear_is_a_straight_line():
    assert [Linear(0.1, 0.2)(p) for p in (0.0, 0.25, 1.0)] == pytest.approx([0.1, 0.125, 0.2], abs=1e-15)


def test_linear_may_fall():
    assert Linear(0.2, 0.0)(0.75) == pytest.approx(0.05, abs=1e-15)


@pytest.mark.parametrize("progress", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_cosine_is_half_a_cosine(progress: float):
    expected = 0.1 + 0.2 * (1 - math.cos(math.pi * progress)) / 2
    assert Cosine(0.1, 0.3)(progress) == pytest.approx(expected, abs=1e-15)


def test_cosine_meets_its_ends():
    assert [Cosine(0.1, 0.3)(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.1, 0.2, 0.3], abs=1e-15)


def test_piecewise_interpolates_between_its_points():
    assert [STEP(p) for p in (0.0, 0.25, 0.75, 1.0)] == pytest.approx([0.1, 0.15, 0.2, 0.0], abs=1e-15)


def test_the_later_value_holds_from_a_repeated_point():
    assert STEP(0.5) == pytest.approx(0.4, abs=1e-15)
    assert STEP(math.nextafter(0.5, 0.0)) == pytest.approx(0.2, abs=1e-12)


def test_a_step_at_either_end_is_allowed():
    edges = Piecewise(((0.0, 0.1), (0.0, 0.3), (1.0, 0.3), (1.0, 0.2)))
    assert [edges(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.3, 0.3, 0.2], abs=1e-15)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
@pytest.mark.parametrize("progress", [-0.01, 1.01, math.nan, math.inf])
def test_progress_outside_of_training_is_refused(schedule, progress: float):
    with pytest.raises(ValueError, match="progress must be between 0 and 1") as error:
        schedule(progress)
    assert repr(progress) in str(error.value)


@pytest.mark.parametrize(
    "points",
    [
        (),
        ((0.0, 0.1),),
        ((0.1, 0.1), (1.0, 0.2)),
        ((0.0, 0.1), (0.9, 0.2)),
        ((0.0, 0.1), (0.6, 0.2), (0.4, 0.2), (1.0, 0.3)),
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
def test_a_schedule_prints_as_what_makes_it(schedule):
    assert eval(repr(schedule)) == schedule


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_a_schedule_compares_and_hashes_by_value(schedule):
    twin = pickle.loads(pickle.dumps(schedule))
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
    assert set(PAPER_SCHEDULES) == {"constant", "linear", "linear_from_zero", "linear_high"}
    assert [
        PAPER_SCHEDULES[name](1.0) for name in ("constant", "linear", "linear_from_zero", "linear_high")
    ] == pytest.approx([0.1, 0.2, 0.1, 0.3], abs=1e-15)


def test_the_paper_schedules_cannot_be_changed():
    with pytest.raises(TypeError) as error:
        PAPER_SCHEDULES["linear"] = Constant(0.5)
    assert PAPER_SCHEDULES["linear"] == Linear(0.1, 0.2), error


def test_the_last_epoch_has_progress_one():
    assert [epoch_progress(epoch, 5) for epoch in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_single_epoch_has_progress_zero():
    assert epoch_progress(0, 1) == 0.0
