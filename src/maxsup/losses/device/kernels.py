"""Triton kernels over samples of logits: one gives values and what the gradient needs, another the gradient.

A program takes ``ROWS`` samples and goes through their classes in tiles of ``BLOCK``. Logits are ``(planes, classes,
positions)`` by strides: rows ``(N, K)`` are one plane with N positions, dense logits ``(N, K, H, W)`` are N planes.
Arithmetic is in single precision at least. Only ``losses/device/rows.py`` imports this file, where Triton is present.

What a penalty is stands in device functions (``penalties.py``) and in what the true and the top
class get; its name is a constant of the compilation. Its strength is a number that comes with the launch or is read
from memory: a schedule neither compiles anew nor waits.

The program of the first kernel that finishes last adds up what all of them found, in the order of the samples: the
same batch gives the same loss, bit for bit. Which one is last says a counter in memory, which it sets back to 0.
"""

# mypy: ignore-errors
# ruff: noqa: RET505 - a constant chooses what is compiled, and that needs an else

from __future__ import annotations

import triton
import triton.language as tl

from maxsup.losses.device.penalties import penalty_of, push_on_class

# Sizes that are a multiple of this allow loads of 128 bits in every precision. Triton by itself only asks for 16.
VECTOR = tl.constexpr(8)


@triton.jit
def _sizes(num_classes, num_positions, plane_stride, position_stride, class_stride, ALIGNED: tl.constexpr):
    """Sizes as they are: an aligned one comes divided, so that the compiler sees what it is a multiple of."""
    if ALIGNED != "none":
        plane_stride *= VECTOR
    if ALIGNED == "classes":
        num_classes *= VECTOR
        position_stride *= VECTOR
    elif ALIGNED == "positions":
        num_positions *= VECTOR
        class_stride *= VECTOR
    return num_classes, num_positions, plane_stride, position_stride, class_stride


@triton.jit
def _number(value, IN_MEMORY: tl.constexpr, DTYPE: tl.constexpr):
    """A number from where it is in memory, or as it came with the launch."""
    if IN_MEMORY:
        return tl.load(value).to(DTYPE)
    else:
        return tl.full([], value, DTYPE)


@triton.jit
def _tile(start_of_sample, classes, class_stride, num_classes, is_sample, DTYPE: tl.constexpr):
    """Logits of a tile; -inf outside."""
    is_inside = is_sample[:, None] & (classes < num_classes)[None, :]
    return tl.load(
        start_of_sample[:, None] + (classes * class_stride)[None, :], mask=is_inside, other=-float("inf")
    ).to(DTYPE)


@triton.jit
def _target_mass(start_of_target, classes, target_stride, num_classes, is_sample, weight, DTYPE: tl.constexpr):
    """Probability times class weight in a tile; 0 outside."""
    is_class = classes < num_classes
    is_inside = is_sample[:, None] & is_class[None, :]
    mass = tl.load(start_of_target[:, None] + (classes * target_stride)[None, :], mask=is_inside, other=0.0).to(DTYPE)
    if weight is not None:
        mass *= tl.load(weight + classes, mask=is_class, other=0.0).to(DTYPE)[None, :]
    return mass


@triton.jit
def _store_loss(
    partials,
    num_programs,
    num_items,
    loss,
    denominator,
    IN_MEMORY: tl.constexpr,
    IS_MEAN: tl.constexpr,
    IS_ZERO_IF_EMPTY: tl.constexpr,
    DTYPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum or mean of the values, from the sums of the programs in their order."""
    sums = tl.zeros([BLOCK], DTYPE)
    counts = tl.zeros([BLOCK], DTYPE)
    for first in range(0, num_programs, BLOCK):
        places = first + tl.arange(0, BLOCK)
        is_inside = places < num_programs
        # Past the first cache, which does not see what other programs have stored.
        sums += tl.load(partials + places, mask=is_inside, other=0.0, cache_modifier=".cg")
        counts += tl.load(partials + num_programs + places, mask=is_inside, other=0.0, cache_modifier=".cg")
    result = tl.sum(sums, 0)
    if IS_MEAN:
        divisor = tl.sum(counts, 0) if num_items is None else _number(num_items, IN_MEMORY, DTYPE)
        if IS_ZERO_IF_EMPTY:
            divisor = tl.where(divisor == 0, 1.0, divisor)
        result = result / divisor
        tl.store(denominator, divisor)
    tl.store(loss, result)


@triton.jit
def statistics_kernel(
    logits,
    target,
    weight,
    strength,
    num_items,
    values,
    scales,
    statistics,
    top_indices,
    loss,
    denominator,
    partials,
    num_finished,
    num_classes,
    num_positions,
    plane_stride,
    position_stride,
    class_stride,
    target_plane_stride,
    target_position_stride,
    target_class_stride,
    ignore_index,
    PENALTY: tl.constexpr,
    IN_MEMORY: tl.constexpr,
    ITEMS_IN_MEMORY: tl.constexpr,
    REDUCTION: tl.constexpr,
    IS_ZERO_IF_EMPTY: tl.constexpr,
    PARTIALS: tl.constexpr,
    MARGIN: tl.constexpr,
    Z_LOSS: tl.constexpr,
    IS_SOFT: tl.constexpr,
    ALIGNED: tl.constexpr,
    IS_DOUBLE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Value of each sample, or the loss of all of them, and what the gradient needs."""
    DTYPE: tl.constexpr = tl.float64 if IS_DOUBLE else tl.float32
    num_classes, num_positions, plane_stride, position_stride, class_stride = _sizes(
        num_classes, num_positions, plane_stride, position_stride, class_stride, ALIGNED
    )
    plane = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_sample = position < num_positions
    sample = plane * num_positions + position
    start = logits + plane * plane_stride + position.to(tl.int64) * position_stride
    start_of_target = target + plane * target_plane_stride + position.to(tl.int64) * target_position_stride

    top = tl.full([ROWS], -float("inf"), DTYPE)
    top_index = tl.zeros([ROWS], tl.int32)
    norm = tl.zeros([ROWS], DTYPE)
    total = tl.zeros([ROWS], DTYPE)
    count = tl.zeros([ROWS], DTYPE)
    squares = tl.zeros([ROWS], DTYPE)
    weighted = tl.zeros([ROWS], DTYPE)
    mass_sum = tl.zeros([ROWS], DTYPE)
    mass_logit = tl.zeros([ROWS], DTYPE)
    for first in range(0, num_classes, BLOCK):
        classes = first + tl.arange(0, BLOCK)
        z = _tile(start, classes, class_stride, num_classes, is_sample, DTYPE)
        is_present = z != -float("inf")
        present = tl.where(is_present, z, 0.0)
        block_top, block_index = tl.max(z, 1, return_indices=True, return_indices_tie_break_left=True)
        # Strictly greater: of equal logits the first one is the top.
        top_index = tl.where(block_top > top, first + block_index, top_index)
        new_top = tl.maximum(top, block_top)
        # A sample that is masked so far would be -inf minus -inf, which is nan.
        pivot = tl.where(new_top == -float("inf"), 0.0, new_top)
        exponentials = tl.exp(z - pivot[:, None])
        shrink = tl.exp(top - pivot)
        norm = norm * shrink + tl.sum(exponentials, 1)
        total += tl.sum(present, 1)
        count += tl.sum(is_present.to(DTYPE), 1)
        if PENALTY == "logit_penalty":
            squares += tl.sum(present * present, 1)
        if PENALTY == "confidence_penalty":
            weighted = weighted * shrink + tl.sum(exponentials * present, 1)
        if IS_SOFT:
            mass = _target_mass(start_of_target, classes, target_class_stride, num_classes, is_sample, weight, DTYPE)
            mass_sum += tl.sum(mass, 1)
            mass_logit += tl.sum(tl.where(mass == 0, 0.0, mass * z), 1)
            if PENALTY == "poly1":
                weighted = weighted * shrink + tl.sum(exponentials * mass, 1)
        top = new_top
    log_norm = tl.where(top == -float("inf"), 0.0, top) + tl.log(norm)

    excess = tl.zeros([ROWS], DTYPE)
    num_open = tl.zeros([ROWS], DTYPE)
    if PENALTY == "mbls":  # what lies beyond the margin is known when the top is
        for first in range(0, num_classes, BLOCK):
            classes = first + tl.arange(0, BLOCK)
            z = _tile(start, classes, class_stride, num_classes, is_sample, DTYPE)
            distance = top[:, None] - z - MARGIN
            is_open = (z != -float("inf")) & (distance > 0)
            excess += tl.sum(tl.where(is_open, distance, 0.0), 1)
            num_open += tl.sum(is_open.to(DTYPE), 1)
        excess /= count

    if IS_SOFT:
        scale = mass_sum if weight is not None else (mass_sum != 0).to(DTYPE)
        # Weights move the target towards the heavy classes, and its mass becomes the weight of the sample.
        divisor = tl.full([ROWS], 1.0, DTYPE)
        if weight is not None:
            divisor = tl.where(mass_sum == 0, 1.0, mass_sum)
        share = mass_sum / divisor
        true_logit = mass_logit / divisor
        is_counted = is_sample & (scale != 0)
        data = share * log_norm - true_logit
    else:
        label = tl.load(start_of_target, mask=is_sample, other=0).to(tl.int64)
        is_counted = is_sample & (label != ignore_index)
        is_known = is_counted & (label >= 0) & (label < num_classes)
        # A label that is no class makes its sample nan: nothing is read there, and nobody is made to wait.
        true_logit = tl.load(start + label * class_stride, mask=is_known, other=float("nan")).to(DTYPE)
        if weight is not None:
            scale = tl.load(weight + label, mask=is_known, other=0.0).to(DTYPE)
        else:
            scale = is_counted.to(DTYPE)
        data = log_norm - true_logit
    expected = weighted / norm  # of the logits, or of the target under the prediction
    if PENALTY == "poly1":
        expected = expected / divisor if IS_SOFT else tl.exp(true_logit - log_norm)
    penalty = penalty_of(PENALTY, top, total / count, true_logit, squares, expected, log_norm, excess)
    value = data + _number(strength, IN_MEMORY, DTYPE) * penalty
    if Z_LOSS != 0:
        value += Z_LOSS * log_norm * log_norm
    num_samples = tl.num_programs(1).to(tl.int64) * num_positions
    value = tl.where(is_counted, scale * value, 0.0)
    scale = tl.where(is_counted, scale, 0.0)
    tl.store(scales + sample, scale, mask=is_sample)
    tl.store(statistics + sample, log_norm, mask=is_sample)
    tl.store(statistics + num_samples + sample, count, mask=is_sample)
    tl.store(statistics + 2 * num_samples + sample, top, mask=is_sample)
    tl.store(statistics + 3 * num_samples + sample, num_open if PENALTY == "mbls" else penalty, mask=is_sample)
    tl.store(top_indices + sample, top_index, mask=is_sample)
    if IS_SOFT:
        tl.store(statistics + 4 * num_samples + sample, mass_sum, mask=is_sample)
    if REDUCTION == "none":
        tl.store(values + sample, value, mask=is_sample)
    else:
        num_programs = tl.num_programs(0) * tl.num_programs(1)
        program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        tl.store(partials + program, tl.sum(value, 0))
        tl.store(partials + num_programs + program, tl.sum(scale, 0))
        # What this program has stored is in memory before it counts as finished, and what the others have stored is
        # seen by the one that finds them all finished.
        tl.debug_barrier()
        if tl.atomic_add(num_finished, 1, sem="acq_rel") == num_programs - 1:
            tl.debug_barrier()
            is_mean: tl.constexpr = REDUCTION == "mean"
            _store_loss(
                partials,
                num_programs,
                num_items,
                loss,
                denominator,
                ITEMS_IN_MEMORY,
                is_mean,
                IS_ZERO_IF_EMPTY,
                DTYPE,
                PARTIALS,
            )
            tl.store(num_finished, 0)


@triton.jit
def gradient_kernel(
    logits,
    target,
    weight,
    strength,
    scales,
    statistics,
    top_indices,
    upstream,
    denominator,
    gradient,
    num_classes,
    num_positions,
    plane_stride,
    position_stride,
    class_stride,
    gradient_plane_stride,
    gradient_position_stride,
    gradient_class_stride,
    target_plane_stride,
    target_position_stride,
    target_class_stride,
    upstream_stride,
    ignore_index,
    PENALTY: tl.constexpr,
    IN_MEMORY: tl.constexpr,
    MARGIN: tl.constexpr,
    Z_LOSS: tl.constexpr,
    IS_SOFT: tl.constexpr,
    ALIGNED: tl.constexpr,
    IS_DOUBLE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradient of ``upstream / denominator`` times the values, which may be written over the logits."""
    DTYPE: tl.constexpr = tl.float64 if IS_DOUBLE else tl.float32
    _, _, gradient_plane_stride, gradient_position_stride, gradient_class_stride = _sizes(
        num_classes, num_positions, gradient_plane_stride, gradient_position_stride, gradient_class_stride, ALIGNED
    )
    num_classes, num_positions, plane_stride, position_stride, class_stride = _sizes(
        num_classes, num_positions, plane_stride, position_stride, class_stride, ALIGNED
    )
    plane = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_sample = position < num_positions
    sample = plane * num_positions + position
    num_samples = tl.num_programs(1).to(tl.int64) * num_positions
    start = logits + plane * plane_stride + position.to(tl.int64) * position_stride
    start_of_gradient = gradient + plane * gradient_plane_stride + position.to(tl.int64) * gradient_position_stride
    start_of_target = target + plane * target_plane_stride + position.to(tl.int64) * target_position_stride

    log_norm = tl.load(statistics + sample, mask=is_sample, other=0.0)
    count = tl.load(statistics + num_samples + sample, mask=is_sample, other=1.0)
    top = tl.load(statistics + 2 * num_samples + sample, mask=is_sample, other=0.0)
    extra = tl.load(statistics + 3 * num_samples + sample, mask=is_sample, other=0.0)
    top_index = tl.load(top_indices + sample, mask=is_sample, other=0)
    scale = tl.load(scales + sample, mask=is_sample, other=0.0)
    alpha = _number(strength, IN_MEMORY, DTYPE)
    pull = tl.load(upstream + sample * upstream_stride, mask=is_sample, other=0.0).to(DTYPE) * scale
    if denominator is not None:
        pull /= tl.load(denominator).to(DTYPE)
    divisor = tl.full([ROWS], 1.0, DTYPE)
    share = tl.full([ROWS], 1.0, DTYPE)
    label = tl.zeros([ROWS], tl.int64)
    if IS_SOFT:
        is_counted = is_sample & (scale != 0)
        share = tl.load(statistics + 4 * num_samples + sample, mask=is_sample, other=0.0)
        if weight is not None:
            divisor = tl.where(share == 0, 1.0, share)
            share = share / divisor
    else:
        label = tl.load(start_of_target, mask=is_sample, other=0).to(tl.int64)
        is_counted = is_sample & (label != ignore_index)
        pull = tl.where((label >= 0) & (label < num_classes), pull, float("nan"))
    # 0 times an upstream, or a factor, that is not finite is not 0.
    pull = tl.where(is_counted, pull, 0.0)
    push = pull * alpha
    slope = pull * (share + 2 * Z_LOSS * log_norm) if Z_LOSS != 0 else pull * share
    on_target = -pull
    if PENALTY == "ls":
        on_target += push
    if PENALTY == "poly1" and not IS_SOFT:
        on_target -= push * (1.0 - extra)
    on_top = push * (extra / count) if PENALTY == "mbls" else push

    for first in range(0, num_classes, BLOCK):
        classes = first + tl.arange(0, BLOCK)
        z = _tile(start, classes, class_stride, num_classes, is_sample, DTYPE)
        probs = tl.exp(z - log_norm[:, None])
        dense = push_on_class(
            PENALTY, MARGIN, z, probs, count[:, None], log_norm[:, None], extra[:, None], top[:, None]
        )
        grad = tl.where(z != -float("inf"), slope[:, None] * probs + push[:, None] * dense, 0.0)
        if IS_SOFT:
            mass = _target_mass(start_of_target, classes, target_class_stride, num_classes, is_sample, weight, DTYPE)
            grad += (on_target / divisor)[:, None] * mass
            if PENALTY == "poly1":
                grad -= (push / divisor)[:, None] * probs * mass
        else:
            grad += tl.where(classes[None, :] == label[:, None], on_target[:, None], 0.0)
        if PENALTY == "maxsup" or PENALTY == "mbls":
            grad += tl.where(classes[None, :] == top_index[:, None], on_top[:, None], 0.0)
        grad = tl.where(is_counted[:, None], grad, 0.0)
        is_inside = is_sample[:, None] & (classes < num_classes)[None, :]
        pointers = start_of_gradient[:, None] + (classes * gradient_class_stride)[None, :]
        tl.store(pointers, grad.to(gradient.dtype.element_ty), mask=is_inside)
