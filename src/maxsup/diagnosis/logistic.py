r"""Multinomial logistic regression along a path of penalties, from strong to weak.

.. math:: f(W, b) = \sum_i -\log q_{y_i}(W x_i + b) + \frac{\lambda}{2} \|W\|^2

The bias is not penalised. Three things make a whole path cheap:

- Features are centred and rotated to their principal axes once. In these axes the Hessian is close to diagonal,
  :math:`\kappa_c s_j^2 + \lambda` with the squared length :math:`s_j^2` of axis j and :math:`\kappa_c` the mean of
  :math:`q_c (1 - q_c)`. L-BFGS starts from this diagonal.
- Logits are linear in the weights, so a line search needs no matrix products. Neither does extrapolating the path from
  the last two solutions to a new strength.
- The curvature pairs of L-BFGS carry over to the next strength: they store the data term of the gradient difference,
  and the penalty term is added for the current strength.

Matrix products and logits are in float32, sums in float64. The residual of the true class is computed as the sum of the
other probabilities and not as a difference from 1, which keeps the objective exact when all samples are fitted.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

TOLERANCE = 1e-6  # stop when the next step promises less than this share of the objective
MAX_STEPS = 1000
# One small step may come from a bad curvature estimate, so two in a row are needed; one on a continued path.
NUM_SMALL = 2
MAX_RATIO = 10.0  # a strength above the last one, or smaller by more than this factor, is a jump: start afresh
MEMORY = 20  # L-BFGS memory
# Wolfe conditions: sufficient decrease, and the share of the initial slope that may remain.
DECREASE, FLATTENING = 1e-4, 0.9
MAX_TRIALS = 30
REFRESH_STEPS = 50  # steps after which the logits are recomputed, so that rounding errors do not accumulate
MIN_DOUBT = 1e-7  # lower bound of the curvature of classes that are certain in every sample
BLOCK_ELEMENTS = 1 << 17  # logits processed at a time


class Solution(NamedTuple):
    """The weights at the minimum for one strength, in the coordinates of the given features."""

    strength: float
    weight: Tensor
    bias: Tensor
    objective: float
    num_steps: int


class LogisticPath:
    """Solve for one strength after another, each from the solution before.

    Args:
        features: Inputs, ``(N, D)``.
        labels: Class indices, ``(N,)``. Every class must occur.
        num_classes: Number of classes.
        dtype: Type of matrix products and logits. A tolerance below 1e-7 needs float64.
        max_steps: Largest number of steps per strength.

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
        self._mean, self._axes, rotated = _rotate(features.detach().cpu().double())
        # A last column of ones carries the bias.
        self._inputs = torch.cat([rotated, rotated.new_ones(len(rotated), 1)], dim=1).to(dtype)
        self._lengths = self._inputs.square().sum(dim=0, dtype=torch.float64).to(dtype)
        self._weights = torch.zeros(num_classes, self._inputs.shape[1], dtype=dtype)
        self._logits = torch.zeros(len(labels), num_classes, dtype=dtype)
        self._residual = torch.empty_like(self._logits)
        # The last two strengths, and the last change of weights and logits.
        self._strengths: deque[float] = deque(maxlen=2)
        self._move: tuple[Tensor, Tensor] | None = None
        self._pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=MEMORY)
        self._age = 0

    def start_at(self, weight: Tensor, bias: Tensor) -> None:
        """Start from the weights of another path over features of the same width."""
        weight = weight.double()
        inner = torch.cat([weight @ self._axes, (bias.double() + weight @ self._mean).unsqueeze(1)], dim=1)
        self._weights = inner.to(self._inputs.dtype)
        self._refresh()

    def solve(self, strength: float, tolerance: float = TOLERANCE) -> Solution:
        """Minimise the objective at one strength of the penalty. Strengths should fall from call to call.

        ``tolerance`` is the relative decrease promised by a step below which the solver stops.
        """
        penalty = torch.full_like(self._lengths, strength)
        penalty[-1] = 0.0
        before, start = self._weights, self._logits.clone()
        objective = self._evaluate(self._logits) + self._penalty(strength)
        is_jump = not self._strengths or not 1.0 <= self._strengths[-1] / strength <= MAX_RATIO
        if is_jump:
            # The stored curvature does not fit this strength.
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
                # Rounding hides the gain along the L-BFGS direction: try once more without the stored pairs.
                if not self._pairs:
                    break
                self._pairs.clear()
                self._evaluate(self._logits)
                continue
            objective = found
            old_gradient, gradient = gradient, self._residual.T @ self._inputs
            move, change = self._weights - old, gradient - old_gradient
            # The data term alone must be convex along the step too: the next penalty is weaker.
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
        """Continue in the direction of the last strength while that helps, and return the objective."""
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
            self._evaluate(self._logits)
            return objective
        return found

    def _search(
        self, strength: float, direction: Tensor, ahead: Tensor, objective: float, slope: float, step: float
    ) -> float | None:
        """Line search: move along a direction (``ahead`` in logits), and return the objective or None if none helps."""
        own, other = self._weights[:, :-1].double(), direction[:, :-1].double()
        cross, square = strength * float((own * other).sum()), strength * float(other.square().sum())
        base = self._penalty(strength)
        low, high = 0.0, math.inf
        best: tuple[float, float] | None = None
        for _ in range(MAX_TRIALS):
            value = self._evaluate(self._logits, ahead, step) + base + step * (cross + step * square / 2)
            if not value <= objective + DECREASE * step * slope:
                high = step
                # Minimum of the parabola through both values and the slope, kept away from the ends.
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
            self._evaluate(self._logits, ahead, best[0])
        step, value = best
        self._weights = self._weights + step * direction
        self._logits.add_(ahead, alpha=step)
        return value

    def _evaluate(self, logits: Tensor, ahead: Tensor | None = None, step: float = 0.0) -> float:
        """Return the summed cross-entropy at ``logits + step * ahead``, and leave its gradient in the residual."""
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
        """Return the L-BFGS direction and the slope of the objective along it."""
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
        """Return the inverse of the approximate Hessian diagonal, from the current residual."""
        doubt = torch.zeros(self._logits.shape[1], dtype=torch.float64)
        num_rows = max(1, BLOCK_ELEMENTS // self._logits.shape[1])
        for residual in self._residual.split(num_rows):
            # |r| is q for other classes and 1 - q for the true one; |r| (1 - |r|) is q (1 - q) for both.
            size = residual.abs()
            doubt += (size * (1.0 - size)).sum(dim=0)
        doubt = (doubt / len(self._labels)).clamp_(min=MIN_DOUBT).to(self._lengths.dtype)
        return torch.outer(doubt, self._lengths).add_(penalty).clamp_(min=torch.finfo(torch.float32).tiny).reciprocal_()

    def _penalty(self, strength: float) -> float:
        return strength / 2 * float(self._weights[:, :-1].double().square().sum())

    def _refresh(self) -> None:
        torch.mm(self._inputs, self._weights.T, out=self._logits)
        self._age = 0


def _rotate(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean, the principal axes as columns (at most one per sample), and the centred features along them."""
    mean = features.mean(dim=0)
    centred = features - mean
    num_samples, width = centred.shape
    if width <= num_samples:
        _, axes = torch.linalg.eigh(centred.T @ centred)
        return mean, axes, centred @ axes
    # The optimal weights lie in the span of the samples.
    basis, inner = torch.linalg.qr(centred.T)
    _, axes = torch.linalg.eigh(inner @ inner.T)
    return mean, basis @ axes, inner.T @ axes


def _dot(one: Tensor, other: Tensor) -> float:
    return float((one * other).sum(dtype=torch.float64))
