"""Hypothesis strategies: whole calls of a loss, small enough to shrink to something readable.

Every number is a multiple of a power of two, so that it is the same number in float32, in float64 and in the reference,
and so that ties between logits are common.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.reference.cases import LossCase

Rows = list[list[float]]


@dataclass
class Batch:
    """One call of a loss: a row of logits and a target per sample, and the options."""

    shape: tuple[int, ...]
    rows: Rows
    targets: list[int] | Rows
    shared: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    per_sample: dict[str, Rows] = field(default_factory=dict)
    per_class: dict[str, Rows] = field(default_factory=dict)
    num_items_is_tensor: bool = False

    @property
    def holds_probabilities(self) -> bool:
        return bool(self.targets) and isinstance(self.targets[0], list)

    def shaped(self, rows: Rows, dtype: torch.dtype) -> Tensor:
        """Rows as a tensor of the batch's shape, classes on axis 1 (axis 0 for a single sample)."""
        num_classes = len(rows[0])
        if len(self.shape) == 1:
            return torch.tensor(rows[0], dtype=dtype)
        flat = torch.tensor(rows, dtype=dtype)
        return flat.reshape(self.shape[0], *self.shape[2:], num_classes).movedim(-1, 1)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.shape[:1] + self.shape[2:] if len(self.shape) > 1 else ()

    def input(self, dtype: torch.dtype) -> Tensor:
        return self.shaped(self.rows, dtype)

    def target(self, dtype: torch.dtype) -> Tensor:
        if self.holds_probabilities:
            return self.shaped(self.targets, dtype)
        return torch.tensor(self.targets).reshape(self.sample_shape)

    def keywords(self, dtype: torch.dtype) -> dict[str, Any]:
        """Options of the function, tensors where the function takes tensors."""
        keywords = {**self.shared, **self.options}
        if keywords.get("weight") is not None:
            keywords["weight"] = torch.tensor(keywords["weight"], dtype=dtype)
        if self.num_items_is_tensor:
            num_items = keywords["num_items"]
            keywords["num_items"] = torch.tensor(int(num_items) if num_items.is_integer() else num_items)
        keywords.update({name: self.shaped(rows, dtype) for name, rows in self.per_sample.items()})
        keywords.update({name: torch.tensor(rows, dtype=dtype) for name, rows in self.per_class.items()})
        return keywords

    def without_num_items(self) -> None:
        """Forget the denominator, which goes with the mean only."""
        self.shared.pop("num_items", None)
        self.num_items_is_tensor = False

    def reference_options(self, sample: int) -> dict[str, Any]:
        """Options of the reference for one sample."""
        return {
            **self.options,
            **{name: rows[sample] for name, rows in self.per_sample.items()},
            **self.per_class,
        }


def holds_for(num_examples: int, **strategies: st.SearchStrategy) -> Callable[[Callable[..., None]], None]:
    """Decorator that runs a property at once on this many examples, and checks that it did."""

    def run(holds: Callable[..., None]) -> None:
        seen = []

        @settings(max_examples=num_examples)
        @given(**strategies)
        def counted(**drawn: Any) -> None:
            seen.append(None)
            holds(**drawn)

        counted()
        assert len(seen) >= num_examples

    return run


ALPHAS = st.sampled_from((0.03125, 0.1, 0.25, 0.4))


def logit(byte: int) -> float:
    """A logit between -8 and 8."""
    return (byte - 128) / 16


def rows_of(draw: st.DrawFn, number: Callable[[int], float], num_rows: int, num_classes: int) -> Rows:
    """Rows of numbers, each made of one byte: a single draw is many times faster than a list of draws."""
    drawn = draw(st.binary(min_size=num_rows * num_classes, max_size=num_rows * num_classes))
    return [[number(byte) for byte in drawn[i * num_classes :][:num_classes]] for i in range(num_rows)]


def distributions(draw: st.DrawFn, num_rows: int, num_classes: int) -> Rows:
    """Rows of sixteenths that sum to exactly one."""
    cuts = rows_of(draw, lambda byte: byte % 17, num_rows, num_classes - 1)
    return [[(right - left) / 16 for left, right in pairwise([0, *sorted(row), 16])] for row in cuts]


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    num_classes = draw(st.integers(2, 5))
    dims = draw(st.sampled_from((0, 1, 1, 2)))
    if dims == 0:
        return (num_classes,)
    batch = draw(st.integers(1, 4))
    return (batch, num_classes) if dims == 1 else (batch, num_classes, draw(st.integers(1, 3)))


def num_samples(shape: tuple[int, ...]) -> int:
    if len(shape) == 1:
        return 1
    return shape[0] if len(shape) == 2 else shape[0] * shape[2]


def own_options(draw: st.DrawFn, case: LossCase, dtype: torch.dtype, probabilities: bool) -> dict[str, Any]:
    """Values for the options a loss has besides the shared ones."""
    options: dict[str, Any] = {}
    if "alpha" in case.strength:
        options["alpha"] = draw(ALPHAS)
    if "beta" in case.strength:
        options["beta"] = draw(st.sampled_from((0.002, 0.1)))
    if "gamma" in case.strength:
        options["gamma"] = draw(st.sampled_from((1.0, 2.0, 3.0)))
    if case.name == "logit_norm":
        # 1 / tau multiplies the rounding error of the logits: 25 times at 0.04, which float32 cannot give at 2e-6.
        options["tau"] = draw(st.sampled_from((0.04, 0.5, 1.0) if dtype == torch.float64 else (0.5, 1.0)))
    if "epsilon" in case.strength:
        options["epsilon"] = draw(st.sampled_from((0.5, 2.0)))
    if case.name == "distillation":
        options["temperature"] = draw(st.sampled_from((1.0, 4.0)))
    if case.name in ("mbls", "acls"):
        options["margin"] = draw(st.sampled_from((0.0, 0.5, 4.0)))
    if case.name == "ls":
        options["convention"] = draw(st.sampled_from(("k", "k-1")))
        options["weight_mode"] = draw(st.sampled_from(("sample", "torch")))
    if case.name == "focal_ls":
        modes = ("additive", "per_class") if probabilities else ("additive", "gt_modulated", "per_class")
        options["mode"] = draw(st.sampled_from(modes))
    if case.name == "zipf_ls":
        options["power"] = draw(st.sampled_from((0.5, 1.0, 2.0)))
    return options


@st.composite
def batches(draw: st.DrawFn, case: LossCase, dtype: torch.dtype = torch.float64) -> Batch:
    """A call of the loss: any shape, kind of target, weights, ignored index, reduction and denominator."""
    shape = draw(shapes())
    count, num_classes = num_samples(shape), shape[0] if len(shape) == 1 else shape[1]
    probabilities = case.takes_probabilities and draw(st.booleans())
    shared: dict[str, Any] = {"reduction": draw(st.sampled_from(("none", "mean", "mean", "sum")))}
    if probabilities:
        shared["ignore_index"] = draw(st.sampled_from((-100, -1)))
        targets: list[int] | Rows = distributions(draw, count, num_classes)
        if draw(st.integers(0, 5)) == 0:
            targets[0] = [0.0] * num_classes
    else:
        shared["ignore_index"] = draw(st.sampled_from((-100, -1, 255, 0)))
        labels = st.one_of(
            st.integers(0, num_classes - 1), st.integers(0, num_classes - 1), st.just(shared["ignore_index"])
        )
        targets = draw(st.lists(labels, min_size=count, max_size=count))
    if draw(st.booleans()):
        (shared["weight"],) = rows_of(draw, lambda byte: byte % 25 / 8, 1, num_classes)
    if shared["reduction"] == "mean" and draw(st.booleans()):
        shared["num_items"] = draw(st.integers(1, 64)) / 4
    # The confidence of adaptive_ls multiplies the rounding error of a large loss, so that float32 needs small logits.
    shrink = 8.0 if case.name == "adaptive_ls" and dtype == torch.float32 else 1.0
    batch = Batch(
        shape,
        rows_of(draw, lambda byte: logit(byte) / shrink, count, num_classes),
        targets,
        shared,
        own_options(draw, case, dtype, probabilities),
    )
    batch.num_items_is_tensor = "num_items" in shared and draw(st.booleans())
    if case.name == "ols":
        batch.per_class["matrix"] = distributions(draw, num_classes, num_classes)
    if case.name == "zipf_ls" and draw(st.booleans()):
        batch.per_sample["votes"] = rows_of(draw, lambda byte: float(byte % 5), count, num_classes)
    if "teacher_logits" in case.needs:
        batch.per_sample["teacher_logits"] = rows_of(draw, logit, count, num_classes)
    return batch
