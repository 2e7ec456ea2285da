"""Gradients as drawings: SVG whose colours follow the page, light or dark."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import maxsup

LOGITS = (2.0, 0.5, -1.0, 0.0, 1.0)
_WIDTH, _HEIGHT = 340, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 8, 26, 34
_RANGE = (-6.0, 18.0)


def push(name: str, logits: Tensor, target: Tensor) -> Tensor:
    """How one step moves each logit: the negative gradient of a loss with its default options, row by row.

    Example:
        >>> push("ce", torch.zeros(1, 2), torch.tensor([0]))
        tensor([[ 0.5000, -0.5000]])
    """
    loss = maxsup.create_loss(name, reduction="sum")
    # Where a loss learns from epochs, this is before the first.
    loss.end_epoch()
    extras = {}
    if "teacher_logits" in loss.needs:
        # The true class gets half of the probability, the others share the rest.
        teacher = torch.zeros_like(logits)
        teacher[torch.arange(len(logits)), target] = torch.tensor(logits.shape[1] - 1.0).log()
        extras["teacher_logits"] = teacher
    with torch.enable_grad():
        asked = logits.detach().clone().requires_grad_()
        [gradient] = torch.autograd.grad(loss(asked, target, **extras), asked)
    return -gradient


def gradients(name: str) -> str:
    """Two panels of bars: a right prediction and a wrong one, beside plain cross-entropy."""
    logits = torch.tensor([LOGITS])
    panels = {"right: class 0 is true": 0, "wrong: class 4 is true": 4}
    pushes = {
        title: [push(loss, logits, torch.tensor([target]))[0].tolist() for loss in ("ce", name)]
        for title, target in panels.items()
    }
    limit = 1.15 * max(abs(value) for pair in pushes.values() for values in pair for value in values)
    return "".join(_bars(title, name, *pair, limit) for title, pair in pushes.items())


def slope(name: str) -> str:
    """The push on the true logit over its height, all others fixed."""
    heights = torch.linspace(*_RANGE, 121)
    logits = torch.tensor([LOGITS]).repeat(len(heights), 1)
    logits[:, 4] = heights
    target = torch.full((len(heights),), 4)
    plain, own = (push(loss, logits, target)[:, 4].tolist() for loss in ("ce", name))
    return _curves(name, heights.tolist(), plain, own)


def _bars(title: str, name: str, plain: Sequence[float], own: Sequence[float], limit: float) -> str:
    step = (_WIDTH - _LEFT - _RIGHT) / len(own)
    parts = [_axes(title, -limit, limit)]
    zero = _y(0.0, -limit, limit)
    for place, (grey, coloured) in enumerate(zip(plain, own, strict=True)):
        left = _LEFT + place * step
        for offset, value, kind in ((0.14, grey, "plain"), (0.50, coloured, "own")):
            top = _y(max(value, 0.0), -limit, limit)
            height = abs(_y(value, -limit, limit) - zero)
            parts.append(
                f'<rect class="{kind}" x="{left + offset * step:.1f}" y="{top:.1f}" '
                f'width="{0.34 * step:.1f}" height="{height:.1f}"/>'
            )
        middle = left + step / 2
        parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 18}" class="tick">{place}</text>')
    parts.append(_words((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 4, "class"))
    numbers = ", ".join(f"{value:+.3f}" for value in own)
    return _svg(f"{name}, {title}: steps {numbers}", parts)


def _curves(name: str, heights: Sequence[float], plain: Sequence[float], own: Sequence[float]) -> str:
    low, high = min([*plain, *own, -0.1]), max([*plain, *own])
    low, high = low - 0.08 * (high - low), high + 0.08 * (high - low)
    parts = [_axes("push on the true logit", low, high)]
    for values, kind in ((plain, "plain"), (own, "own")):
        points = " ".join(f"{_x(x):.1f},{_y(y, low, high):.1f}" for x, y in zip(heights, values, strict=True))
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
    parts += [
        f'<text x="{_x(height):.1f}" y="{_HEIGHT - 18}" class="tick">{height:g}</text>' for height in range(-5, 20, 5)
    ]
    parts.append(_words((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 4, "height of the true logit"))
    return _svg(f"{name}: push on the true logit over its height", parts)


def _axes(title: str, low: float, high: float) -> str:
    ticks = _ticks(low, high)
    lines = [
        f'<line class="{"zero" if tick == 0 else "grid"}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
        f'y1="{_y(tick, low, high):.1f}" y2="{_y(tick, low, high):.1f}"/>'
        f'<text class="value" x="{_LEFT - 5}" y="{_y(tick, low, high) + 4:.1f}">{tick:g}</text>'
        for tick in ticks
    ]
    return "".join([f'<text class="title" x="{_LEFT}" y="16">{title}</text>', *lines])


def _ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers between two others.

    Example:
        >>> _ticks(-0.9, 0.9)
        [-0.5, 0.0, 0.5]
    """
    for size in (step * 10.0**power for power in range(-4, 4) for step in (1, 2, 5)):
        if (high - low) / size <= 6:
            first = int(-(-low // size))
            return [round(place * size, 6) for place in range(first, int(high // size) + 1)]
    raise ValueError(f"an axis must be shorter than 60,000; got {low:g} to {high:g}.")


def _words(x: float, y: float, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}">{text}</text>'


def _x(value: float) -> float:
    return _LEFT + (value - _RANGE[0]) / (_RANGE[1] - _RANGE[0]) * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, low: float, high: float) -> float:
    return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def _svg(label: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
