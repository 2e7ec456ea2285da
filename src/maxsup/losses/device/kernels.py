"""Triton kernels over samples of logits: one computes values and what the gradient needs, the other the gradient.

A program takes ``ROWS`` samples and goes through their classes in tiles of ``BLOCK``. Strides describe the logits as
``(planes, classes, positions)``: rows ``(N, K)`` are one plane with N positions, dense logits ``(N, K, H, W)`` are N
planes. Arithmetic is at least in float32. Only ``losses/device/rows.py`` imports this file, where Triton is present.

Device functions (``penalties.py``) define a penalty, together with what the true and the top class get here; its name
is a constant of the compilation. Its strength comes with the launch or is read from memory, so a schedule neither
recompiles nor waits.

The last program of the first kernel adds up the sums of all programs in the order of the samples, so the same batch
gives the same loss, bit for bit. A counter in memory identifies the last program, which resets it to 0.
"""

# mypy: ignore-errors
# ruff: noqa: RET505 - a constant chooses what is compiled, and that needs an else

from __future__ import annotations

import triton
import triton.language as tl

from maxsup.losses.device.penalties import penalty_of, push_on_class

# Sizes that are multiples of this allow loads of 128 bits in every precision. Triton itself only checks for 16.
VECTOR = tl.constexpr(8)


@triton.jit
def _sizes(num_classes, num_positions, plane_stride, position_stride, class_stride, ALIGNED: tl.constexpr):
    """The true sizes: aligned ones come divided by ``VECTOR``, so that the compiler sees what they are multiples of."""
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
def _samples(num_positions, ROWS: tl.constexpr):
    """Plane, positions and indices of the samples of this program, and which of them exist."""
    plane = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    return plane, position, plane * num_positions + position, position < num_positions


@triton.jit
def _start(pointer, plane, position, plane_stride, position_stride):
    """Where the classes of each sample start."""
    return pointer + plane * plane_stride + position.to(tl.int64) * position_stride


@triton.jit
def _number(value, IN_MEMORY: tl.constexpr, DTYPE: tl.constexpr):
    """A number that is read from memory or came with the launch."""
    if IN_MEMORY:
        return tl.load(value).to(DTYPE)
    else:
        return tl.full([], value, DTYPE)


@triton.jit
def _strength(strength, sample, is_sample, IN_MEMORY: tl.constexpr, DTYPE: tl.constexpr):
    """The strength of all samples, or of each."""
    if IN_MEMORY == "samples":
        return tl.load(strength + sample, mask=is_sample, other=0.0).to(DTYPE)
    else:
        return _number(strength, IN_MEMORY, DTYPE)


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
def _weight_divisor(mass, weight):
    """Total mass of each target where class weights move it towards heavy classes, else 1."""
    if weight is not None:
        return tl.where(mass == 0, 1.0, mass)
    else:
        return tl.full(mass.shape, 1.0, mass.dtype)


@triton.jit
def _store_loss(
    partials, num_programs, num_items, loss, denominator,
    IN_MEMORY: tl.constexpr, IS_MEAN: tl.constexpr, IS_ZERO_IF_EMPTY: tl.constexpr,
    DTYPE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Store the sum or mean of the values, from the sums of the programs in their order."""
    sums = tl.zeros([BLOCK], DTYPE)
    counts = tl.zeros([BLOCK], DTYPE)
    for first in range(0, num_programs, BLOCK):
        places = first + tl.arange(0, BLOCK)
        is_inside = places < num_programs
        # Bypass the L1 cache, which does not see what other programs have stored.
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
    logits, target, weight, strength, num_items,
    values, scales, statistics, top_indices, loss, denominator, partials, num_finished,
    num_classes, num_positions, plane_stride, position_stride, class_stride,
    target_plane_stride, target_position_stride, target_class_stride, ignore_index,
    PENALTY: tl.constexpr, IN_MEMORY: tl.constexpr, ITEMS_IN_MEMORY: tl.constexpr,
    REDUCTION: tl.constexpr, IS_ZERO_IF_EMPTY: tl.constexpr, PARTIALS: tl.constexpr,
    MARGIN: tl.constexpr, Z_LOSS: tl.constexpr, IS_SOFT: tl.constexpr, ALIGNED: tl.constexpr,
    IS_DOUBLE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, HAS_ENTROPY: tl.constexpr = False,
):  # fmt: skip
    """Value of each sample, or the loss of all samples, and what the gradient needs."""
    DTYPE: tl.constexpr = tl.float64 if IS_DOUBLE else tl.float32
    num_classes, num_positions, plane_stride, position_stride, class_stride = _sizes(
        num_classes, num_positions, plane_stride, position_stride, class_stride, ALIGNED
    )
    plane, position, sample, is_sample = _samples(num_positions, ROWS)
    start = _start(logits, plane, position, plane_stride, position_stride)
    start_of_target = _start(target, plane, position, target_plane_stride, target_position_stride)

    top = tl.full([ROWS], -float("inf"), DTYPE)
    top_index = tl.zeros([ROWS], tl.int32)
    norm = tl.zeros([ROWS], DTYPE)
    mean = tl.zeros([ROWS], DTYPE)
    count = tl.zeros([ROWS], DTYPE)
    mass_sum = tl.zeros([ROWS], DTYPE)
    mass_logit = tl.zeros([ROWS], DTYPE)
    weighted_logit = tl.zeros([ROWS], DTYPE)
    share_of_class = tl.full([], 1.0, DTYPE) / num_classes
    for first in range(0, num_classes, BLOCK):
        classes = first + tl.arange(0, BLOCK)
        z = _tile(start, classes, class_stride, num_classes, is_sample, DTYPE)
        is_present = z != -float("inf")
        present = tl.where(is_present, z, 0.0)
        block_top, block_index = tl.max(z, 1, return_indices=True, return_indices_tie_break_left=True)
        # Strictly greater: the first of equal logits is the top.
        top_index = tl.where(block_top > top, first + block_index, top_index)
        new_top = tl.maximum(top, block_top)
        # A sample that is masked so far would give -inf minus -inf, which is nan.
        pivot = tl.where(new_top == -float("inf"), 0.0, new_top)
        exponentials = tl.exp(z - pivot[:, None])
        norm = norm * tl.exp(top - pivot) + tl.sum(exponentials, 1)
        if HAS_ENTROPY:
            weighted_logit = weighted_logit * tl.exp(top - pivot) + tl.sum(exponentials * present, 1)
        # Divided first: the sum of large logits may be inf where their mean is not.
        mean += tl.sum(present * share_of_class, 1)
        count += tl.sum(is_present.to(DTYPE), 1)
        if IS_SOFT:
            mass = _target_mass(start_of_target, classes, target_class_stride, num_classes, is_sample, weight, DTYPE)
            mass_sum += tl.sum(mass, 1)
            mass_logit += tl.sum(tl.where(mass == 0, 0.0, mass * z), 1)
        top = new_top
    log_norm = tl.where(top == -float("inf"), 0.0, top) + tl.log(norm)

    excess = tl.zeros([ROWS], DTYPE)
    num_open = tl.zeros([ROWS], DTYPE)
    if PENALTY == "mbls":  # distances to the top need a second pass
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
        divisor = _weight_divisor(mass_sum, weight)
        share = mass_sum / divisor
        true_logit = mass_logit / divisor
        is_counted = is_sample & (scale != 0)
        data = share * log_norm - true_logit
    else:
        label = tl.load(start_of_target, mask=is_sample, other=0).to(tl.int64)
        is_counted = is_sample & (label != ignore_index)
        is_known = is_counted & (label >= 0) & (label < num_classes)
        # A label that is no class makes its sample nan: nothing is read there, and the host need not wait for a check.
        true_logit = tl.load(start + label * class_stride, mask=is_known, other=float("nan")).to(DTYPE)
        if weight is not None:
            scale = tl.load(weight + label, mask=is_known, other=0.0).to(DTYPE)
        else:
            scale = is_counted.to(DTYPE)
        data = log_norm - true_logit
    penalty = penalty_of(PENALTY, top, mean * (num_classes / count), true_logit, excess)
    # What costs inf does so whatever a penalty takes off.
    value = tl.where(
        data == float("inf"), data, data + _strength(strength, sample, is_sample, IN_MEMORY, DTYPE) * penalty
    )
    if Z_LOSS != 0:
        value += Z_LOSS * log_norm * log_norm
    num_samples = tl.num_programs(1).to(tl.int64) * num_positions
    # Under an infinite weight the target is nan.
    value = tl.where(is_counted, tl.where(scale == float("inf"), scale, scale * value), 0.0)
    scale = tl.where(is_counted, scale, 0.0)
    tl.store(scales + sample, scale, mask=is_sample)
    tl.store(statistics + sample, log_norm, mask=is_sample)
    tl.store(statistics + num_samples + sample, count, mask=is_sample)
    tl.store(statistics + 2 * num_samples + sample, top, mask=is_sample)
    tl.store(statistics + 3 * num_samples + sample, num_open, mask=is_sample)
    tl.store(top_indices + sample, top_index, mask=is_sample)
    if IS_SOFT:
        tl.store(statistics + 4 * num_samples + sample, mass_sum, mask=is_sample)
    if HAS_ENTROPY:
        entropy_row: tl.constexpr = 5 if IS_SOFT else 4
        tl.store(statistics + entropy_row * num_samples + sample, log_norm - weighted_logit / norm, mask=is_sample)
    if REDUCTION == "none":
        tl.store(values + sample, value, mask=is_sample)
    else:
        num_programs = tl.num_programs(0) * tl.num_programs(1)
        program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        tl.store(partials + program, tl.sum(value, 0))
        tl.store(partials + num_programs + program, tl.sum(scale, 0))
        # A program counts as finished after its stores are in memory; the last one then sees the stores of all others.
        tl.debug_barrier()
        if tl.atomic_add(num_finished, 1, sem="acq_rel") == num_programs - 1:
            tl.debug_barrier()
            is_mean: tl.constexpr = REDUCTION == "mean"
            _store_loss(
                partials, num_programs, num_items, loss, denominator,
                ITEMS_IN_MEMORY, is_mean, IS_ZERO_IF_EMPTY, DTYPE, PARTIALS,
            )  # fmt: skip
            tl.store(num_finished, 0)


@triton.jit
def gradient_kernel(
    logits, target, weight, strength, scales, statistics, top_indices, upstream, denominator, gradient,
    num_classes, num_positions, plane_stride, position_stride, class_stride,
    gradient_plane_stride, gradient_position_stride, gradient_class_stride,
    target_plane_stride, target_position_stride, target_class_stride, upstream_stride, ignore_index,
    PENALTY: tl.constexpr, IN_MEMORY: tl.constexpr, MARGIN: tl.constexpr, Z_LOSS: tl.constexpr,
    IS_SOFT: tl.constexpr, ALIGNED: tl.constexpr, IS_DOUBLE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradient of ``upstream / denominator`` times the values, which may be written over the logits."""
    DTYPE: tl.constexpr = tl.float64 if IS_DOUBLE else tl.float32
    _, _, gradient_plane_stride, gradient_position_stride, gradient_class_stride = _sizes(
        num_classes, num_positions, gradient_plane_stride, gradient_position_stride, gradient_class_stride, ALIGNED
    )
    num_classes, num_positions, plane_stride, position_stride, class_stride = _sizes(
        num_classes, num_positions, plane_stride, position_stride, class_stride, ALIGNED
    )
    plane, position, sample, is_sample = _samples(num_positions, ROWS)
    num_samples = tl.num_programs(1).to(tl.int64) * num_positions
    start = _start(logits, plane, position, plane_stride, position_stride)
    start_of_gradient = _start(gradient, plane, position, gradient_plane_stride, gradient_position_stride)
    start_of_target = _start(target, plane, position, target_plane_stride, target_position_stride)

    log_norm = tl.load(statistics + sample, mask=is_sample, other=0.0)
    count = tl.load(statistics + num_samples + sample, mask=is_sample, other=1.0)
    top = tl.load(statistics + 2 * num_samples + sample, mask=is_sample, other=0.0)
    num_open = tl.load(statistics + 3 * num_samples + sample, mask=is_sample, other=0.0)
    top_index = tl.load(top_indices + sample, mask=is_sample, other=0)
    scale = tl.load(scales + sample, mask=is_sample, other=0.0)
    alpha = _strength(strength, sample, is_sample, IN_MEMORY, DTYPE)
    pull = tl.load(upstream + sample * upstream_stride, mask=is_sample, other=0.0).to(DTYPE) * scale
    if denominator is not None:
        pull /= tl.load(denominator).to(DTYPE)
    divisor = tl.full([ROWS], 1.0, DTYPE)
    share = tl.full([ROWS], 1.0, DTYPE)
    label = tl.zeros([ROWS], tl.int64)
    if IS_SOFT:
        is_counted = is_sample & (scale != 0)
        share = tl.load(statistics + 4 * num_samples + sample, mask=is_sample, other=0.0)
        divisor = _weight_divisor(share, weight)
        share = share / divisor
    else:
        label = tl.load(start_of_target, mask=is_sample, other=0).to(tl.int64)
        is_counted = is_sample & (label != ignore_index)
        pull = tl.where((label >= 0) & (label < num_classes), pull, float("nan"))
    # 0 times an infinite upstream gradient or factor would be nan.
    pull = tl.where(is_counted, pull, 0.0)
    push = pull * alpha
    slope = pull * (share + 2 * Z_LOSS * log_norm) if Z_LOSS != 0 else pull * share
    on_target = -pull
    if PENALTY == "ls":
        on_target += push
    on_top = push * (num_open / count) if PENALTY == "mbls" else push

    for first in range(0, num_classes, BLOCK):
        classes = first + tl.arange(0, BLOCK)
        z = _tile(start, classes, class_stride, num_classes, is_sample, DTYPE)
        probs = tl.exp(z - log_norm[:, None])
        dense = push_on_class(PENALTY, MARGIN, z, count[:, None], top[:, None])
        grad = tl.where(z != -float("inf"), slope[:, None] * probs + push[:, None] * dense, 0.0)
        if IS_SOFT:
            mass = _target_mass(start_of_target, classes, target_class_stride, num_classes, is_sample, weight, DTYPE)
            grad += (on_target / divisor)[:, None] * mass
        else:
            grad += tl.where(classes[None, :] == label[:, None], on_target[:, None], 0.0)
        if PENALTY == "maxsup" or PENALTY == "mbls":
            grad += tl.where(classes[None, :] == top_index[:, None], on_top[:, None], 0.0)
        grad = tl.where(is_counted[:, None], grad, 0.0)
        is_inside = is_sample[:, None] & (classes < num_classes)[None, :]
        pointers = start_of_gradient[:, None] + (classes * gradient_class_stride)[None, :]
        tl.store(pointers, grad.to(gradient.dtype.element_ty), mask=is_inside)
