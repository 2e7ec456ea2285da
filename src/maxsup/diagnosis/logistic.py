r"""Multinomial logistic regression along a path of penalties, from strong to weak.

.. math:: f(W, b) = \sum_i -\log q_{y_i}(W x_i + b) + \frac{\lambda}{2} \|W\|^2

The bias is free. What makes a whole path cheap:

- Features are centred and rotated to their principal axes once. There a diagonal is a good guess of the Hessian,
  :math:`\kappa_c s_j^2 + \lambda` with the squared length :math:`s_j^2` of axis j and :math:`\kappa_c` the mean of
  :math:`q_c (1 - q_c)`, and L-BFGS starts from it.
- Logits are linear in the weights, so they are known along a whole line: a line search costs no matrix products.
  Neither does extrapolating the path from the last two solutions before the first step of a new strength.
- What L-BFGS has learnt of the curvature is kept from one strength to the next: it stores the data's part of the
  difference of two gradients, and adds the part of the penalty for the current strength.

Matrix products and logits are in float32, sums in float64, and the residual of the true class is the sum of the other
probabilities, not a difference to 1; that keeps the objective exact where all samples are fitted.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

TOLERANCE = 1e-6  # a strength is done where the remaining step promises less than this share of the objective
MAX_STEPS = 1000
# One short step may be a wrong guess of the curvature: two in a row, or one where the path has led there.
NUM_SMALL = 2
MAX_RATIO = 10.0  # a strength that is not between the last one and this part of it is a jump, not the next on a path
MEMORY = 20  # steps that L-BFGS remembers
# A line search asks for this share of the promised decrease, and for a slope of at most this share of the first one.
DECREASE, FLATTENING = 1e-4, 0.9
MAX_TRIALS = 30
REFRESH_STEPS = 50  # then the logits are recomputed, so that rounding errors do not accumulate
MIN_DOUBT = 1e-7  # classes that nobody is in doubt about would have a curvature of 0
BLOCK_ELEMENTS = 1 << 17  # logits that are processed at a time


class Solution(NamedTuple):
    """The best weights at a strength, for features as they came."""

    strength: float
    weight: Tensor
    bias: Tensor
    objective: float
    num_steps: int


class LogisticPath:
    """Solutions at one strength after another, each starting where the one before ended.

    Every class must occur in the labels. A strength gets ``max_steps`` at most. ``dtype`` is that of matrix products
    and logits; float64 reaches a tolerance below 1e-7.

    Example:
        >>> path = LogisticPath(torch.tensor([[-1.0], [-0.5], [0.5], [1.0]]), torch.tensor([0, 0, 1, 1]), 2)
        >>> [round(path.solve(strength).objective, 3) for strength in (10.0, 1.0)]
        [2.573, 1.737]
    """

    def __init__(
        self,
        features: Tensor,
        labels: Tensor,
        num_classes: int,
        *,
        dtype: torch.dtype = torch.float32,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._labels = labels
        self._max_steps = max_steps
        self._rows = torch.arange(len(labels))
        self._mean, self._axes, rotated = _principal(features.detach().cpu().double())
        # A last column of ones carries the bias.
        self._inputs = torch.cat([rotated, rotated.new_ones(len(rotated), 1)], dim=1).to(dtype)
        self._lengths = self._inputs.square().sum(dim=0, dtype=torch.float64).to(dtype)
        self._weights = torch.zeros(num_classes, self._inputs.shape[1], dtype=dtype)
        self._logits = torch.zeros(len(labels), num_classes, dtype=dtype)
        self._residual = torch.empty_like(self._logits)
        # The last two strengths, and how far the last one moved weights and logits.
        self._strengths: deque[float] = deque(maxlen=2)
        self._move: tuple[Tensor, Tensor] | None = None
        self._pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=MEMORY)
        self._age = 0

    def start_at(self, weight: Tensor, bias: Tensor) -> None:
        """Begin from the weights of another path over features of the same width."""
        weight = weight.double()
        inner = torch.cat([weight @ self._axes, (bias.double() + weight @ self._mean).unsqueeze(1)], dim=1)
        self._weights = inner.to(self._inputs.dtype)
        self._refresh()

    def solve(self, strength: float, tolerance: float = TOLERANCE) -> Solution:
        """The minimum at a strength of the penalty; strengths should fall from call to call.

        The objective may be the share ``tolerance`` above its minimum, judged by the last step.
        """
        penalty = torch.full_like(self._lengths, strength)
        penalty[-1] = 0.0
        before, start = self._weights, self._logits.clone()
        objective = self._evaluated(self._logits) + self._penalty(strength)
        is_jump = not self._strengths or not 1.0 <= self._strengths[-1] / strength <= MAX_RATIO
        if is_jump:
            # What was learnt elsewhere would mislead here.
            self._pairs.clear()
        else:
            objective = self._extrapolate(strength, objective)
        scale = self._scale(penalty)
        gradient = self._residual.T @ self._inputs
        num_steps, num_small = 0, 0 if is_jump else 1
        while num_steps < self._max_steps:
            direction, slope = self._direction(gradient + penalty * self._weights, penalty, scale)
            num_small = num_small + 1 if -slope / 2 <= tolerance * objective else 0
            if num_small == NUM_SMALL or not slope < 0:
                break
            old = self._weights
            found = self._search(strength, direction, self._inputs @ direction.T, objective, slope, 1.0)
            if found is None:
                # Rounding hides what is left to gain along what is remembered; without it, try once more.
                if not self._pairs:
                    break
                self._pairs.clear()
                self._evaluated(self._logits)
                continue
            objective = found
            old_gradient, gradient = gradient, self._residual.T @ self._inputs
            move, change = self._weights - old, gradient - old_gradient
            # The data's part alone must bend upwards too: at the next strength the penalty holds less.
            if _dot(change + penalty * move, move) > 0 and _dot(change, move) > 0:
                self._pairs.append((move, change))
            num_steps += 1
            if num_steps % 10 == 0:
                scale = self._scale(penalty)
        self._move = self._weights - before, start.neg_().add_(self._logits)
        self._strengths.append(strength)
        self._age += num_steps
        if self._age > REFRESH_STEPS:
            self._refresh()
        weight = self._weights[:, :-1].double() @ self._axes.T
        bias = self._weights[:, -1].double() - weight @ self._mean
        return Solution(strength, weight, bias, objective, num_steps)

    def _extrapolate(self, strength: float, objective: float) -> float:
        """Move on in the direction in which the last strength led, as far as that helps; the objective there."""
        if self._move is None or len(self._strengths) < 2:
            return objective
        before, last = self._strengths
        ratio = math.log(strength / last) / math.log(last / before) if last != before else 0.0
        if not 0.0 < ratio <= 4.0:
            return objective
        direction, ahead = self._move
        slope = _dot(self._residual, ahead) + strength * _dot(self._weights[:, :-1], direction[:, :-1])
        found = self._search(strength, direction, ahead, objective, slope, ratio) if slope < 0 else None
        if found is None:
            self._evaluated(self._logits)
            return objective
        return found

    def _search(
        self, strength: float, direction: Tensor, ahead: Tensor, objective: float, slope: float, step: float
    ) -> float | None:
        """Move along a direction (``ahead`` in logits) to a smaller and flatter objective; None where no step helps."""
        own, other = self._weights[:, :-1].double(), direction[:, :-1].double()
        cross, square = strength * float((own * other).sum()), strength * float(other.square().sum())
        base = self._penalty(strength)
        low, high = 0.0, math.inf
        best: tuple[float, float] | None = None
        for _ in range(MAX_TRIALS):
            value = self._evaluated(self._logits, ahead, step) + base + step * (cross + step * square / 2)
            if not value <= objective + DECREASE * step * slope:
                high = step
                # The minimum of the parabola through both values and the slope, kept away from the ends.
                excess = value - objective - slope * step
                guess = -slope * step * step / (2 * excess) if math.isfinite(excess) and excess > 0 else 0.0
                step = min(max(guess, low + 0.1 * (high - low)), low + 0.5 * (high - low))
                continue
            best = step, value
            if _dot(self._residual, ahead) + cross + step * square >= FLATTENING * slope:
                break
            low = step
            step = 2 * step if math.isinf(high) else (low + high) / 2
        else:
            if best is None:
                return None
            self._evaluated(self._logits, ahead, best[0])
        step, value = best
        self._weights = self._weights + step * direction
        self._logits.add_(ahead, alpha=step)
        return value

    def _evaluated(self, logits: Tensor, ahead: Tensor | None = None, step: float = 0.0) -> float:
        """Sum of the cross-entropies at ``logits + step * ahead``; leaves their gradient in the residual."""
        total = 0.0
        num_rows = max(1, BLOCK_ELEMENTS // logits.shape[1])
        for start in range(0, len(logits), num_rows):
            part = slice(start, start + num_rows)
            labels, rows = self._labels[part], self._rows[: len(self._labels[part])]
            z = logits[part] if ahead is None else torch.add(logits[part], ahead[part], alpha=step)
            top, position = z.max(dim=1)
            powers = torch.sub(z, top.unsqueeze(1), out=self._residual[part]).exp_()
            true = powers[rows, labels]
            powers[rows, labels] = 0.0
            others = powers.sum(dim=1)
            sums = others + true
            losses = torch.where(position == labels, others.log1p(), sums.log() + top - z[rows, labels])
            total += float(losses.sum(dtype=torch.float64))
            powers.div_(sums.unsqueeze(1))
            powers[rows, labels] = -others / sums
        return total

    def _direction(self, gradient: Tensor, penalty: Tensor, scale: Tensor) -> tuple[Tensor, float]:
        """The step of L-BFGS, and how steeply the objective falls along it."""
        left = gradient.clone()
        known = []
        for move, change in reversed(self._pairs):
            change = change + penalty * move
            curvature = _dot(change, move)
            share = _dot(move, left) / curvature
            left.sub_(change, alpha=share)
            known.append((move, change, curvature, share))
        found = left * scale
        if known:
            _, change, curvature, _ = known[0]
            found *= curvature / _dot(change, change * scale)
        for move, change, curvature, share in reversed(known):
            found.add_(move, alpha=share - _dot(change, found) / curvature)
        found.neg_()
        slope = _dot(gradient, found)
        if not slope < 0:
            self._pairs.clear()
            found = -gradient * scale
            slope = _dot(gradient, found)
        return found, slope

    def _scale(self, penalty: Tensor) -> Tensor:
        """The inverse of the guessed diagonal of the Hessian, from the residual at hand."""
        doubt = torch.zeros(self._logits.shape[1], dtype=torch.float64)
        num_rows = max(1, BLOCK_ELEMENTS // self._logits.shape[1])
        for residual in self._residual.split(num_rows):
            # |r| is q for other classes and 1 - q for the true one: q (1 - q) in both.
            size = residual.abs()
            doubt += (size * (1.0 - size)).sum(dim=0)
        doubt = (doubt / len(self._labels)).clamp_(min=MIN_DOUBT).to(self._lengths.dtype)
        return torch.outer(doubt, self._lengths).add_(penalty).clamp_(min=torch.finfo(torch.float32).tiny).reciprocal_()

    def _penalty(self, strength: float) -> float:
        return strength / 2 * float(self._weights[:, :-1].double().square().sum())

    def _refresh(self) -> None:
        torch.mm(self._inputs, self._weights.T, out=self._logits)
        self._age = 0


def _principal(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, principal axes as columns (at most as many as samples), and the centred features along them."""
    mean = features.mean(dim=0)
    centred = features - mean
    num_samples, width = centred.shape
    if width <= num_samples:
        _, axes = torch.linalg.eigh(centred.T @ centred)
        return mean, axes, centred @ axes
    # The best weights lie in the span of the samples.
    basis, inner = torch.linalg.qr(centred.T)
    _, axes = torch.linalg.eigh(inner @ inner.T)
    return mean, basis @ axes, inner.T @ axes


def _dot(one: Tensor, other: Tensor) -> float:
    return float((one * other).sum(dtype=torch.float64))
