"""Numbers of a run on resampled test images, from what is kept of every image.

Images are drawn with replacement, the same ones for all runs on a test set. In translation whole sentences are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tools.evidence.plan import Plan

NUM_RESAMPLES = 1_000
NUM_BINS = 15

Counts = NDArray[np.float32]
"""How often each resample ``(B, N)`` holds each image."""
Values = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.generic]]


def resampled_number(name: str, arrays: Arrays, counts: Counts) -> Values:
    """A number ``(B,)`` on every resample."""
    return NUMBERS[name](arrays, counts)


def shared_images(plan: Plan, pool: str) -> str:
    """What pools with the same test images share."""
    return plan.pools[pool].recipe or pool


def draw_counts(name: str, num_units: int, num_resamples: int = NUM_RESAMPLES) -> Counts:
    """Resamples of a test set; its name and its size decide them."""
    rng = np.random.default_rng([num_units, *name.encode()])
    drawn = (np.bincount(rng.integers(num_units, size=num_units), minlength=num_units) for _ in range(num_resamples))
    return np.stack([each.astype(np.float32) for each in drawn])


def num_units(arrays: Arrays) -> int:
    """How many images, or sentences, a run is tested on."""
    return len(arrays.get("lengths", arrays["is_right"]))


def _per_item(arrays: Arrays, counts: Counts) -> Counts:
    """Counts of images, or of the tokens of sentences."""
    lengths = arrays.get("lengths")
    return counts if lengths is None else np.repeat(counts, lengths.astype(int), axis=1)


def _mean(values: NDArray[np.float32], counts: Counts) -> Values:
    return (counts @ values).astype(np.float64) / counts.sum(axis=1)


def _mean_where(which: NDArray[np.bool_], values: NDArray[np.float32], counts: Counts) -> Values:
    return _mean(values[which], counts[:, which])


def _accuracy(arrays: Arrays, counts: Counts) -> Values:
    return _mean(arrays["is_right"].astype(np.float32), _per_item(arrays, counts))


def _gap(arrays: Arrays, counts: Counts) -> Values:
    right, items = arrays["is_right"].astype(bool), _per_item(arrays, counts)
    confidence = arrays["confidence"].astype(np.float32)
    return _mean_where(right, confidence, items) - _mean_where(~right, confidence, items)


def _confidence_wrong(key: str) -> Callable[[Arrays, Counts], Values]:
    def number(arrays: Arrays, counts: Counts) -> Values:
        wrong = ~arrays["is_right"].astype(bool)
        return _mean_where(wrong, arrays[key].astype(np.float32), _per_item(arrays, counts))

    return number


def _nll(arrays: Arrays, counts: Counts) -> Values:
    return _mean(-np.log(arrays["cooled_truth"].astype(np.float32)), _per_item(arrays, counts))


def _ece(key: str) -> Callable[[Arrays, Counts], Values]:
    def number(arrays: Arrays, counts: Counts) -> Values:
        items, confidence = _per_item(arrays, counts), arrays[key].astype(np.float32)
        bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
        excess = np.zeros((len(confidence), NUM_BINS), np.float32)
        excess[np.arange(len(confidence)), bins] = confidence - arrays["is_right"].astype(np.float32)
        return np.abs((items @ excess).astype(np.float64)).sum(axis=1) / items.sum(axis=1)

    return number


def _aurc(arrays: Arrays, counts: Counts) -> Values:
    """Within a level of equal confidence right and wrong ones are spread evenly, as in ``metrics.aurc``."""
    levels, level = np.unique(-arrays["confidence"].astype(np.float32), return_inverse=True)
    is_at = np.eye(len(levels), dtype=np.float32)[level]
    items, wrong = _per_item(arrays, counts), ~arrays["is_right"].astype(bool)
    count, errors = (items @ is_at).astype(np.float64), (items @ (is_at * wrong[:, None])).astype(np.float64)
    covered, errors_so_far = count.cumsum(axis=1), errors.cumsum(axis=1)
    before, errors_before = covered - count, errors_so_far - errors
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, covered.max() + 1))])
    sums = harmonic[covered.astype(int)] - harmonic[before.astype(int)]
    share = errors / np.maximum(count, 1)
    area = (errors + (errors_before - before * share) * sums).sum(axis=1)
    return np.asarray(area / covered[:, -1])


def _bleu(arrays: Arrays, counts: Counts) -> Values:
    """Corpus BLEU without smoothing from lengths of output and reference, right n-grams and n-grams of each order."""
    sums = (counts @ arrays["bleu"].astype(np.float32)).astype(np.float64)
    length, reference, right, total = sums[:, 0], sums[:, 1], sums[:, 2:6], sums[:, 6:10]
    precision = np.exp(np.log(np.maximum(right, 1e-9) / np.maximum(total, 1)).mean(axis=1))
    return 100 * precision * np.exp(np.minimum(0, 1 - reference / np.maximum(length, 1)))


NUMBERS: dict[str, Callable[[Arrays, Counts], Values]] = {
    "accuracy": _accuracy,
    "gap": _gap,
    "confidence_wrong": _confidence_wrong("confidence"),
    "confidence_wrong_after": _confidence_wrong("cooled_confidence"),
    "aurc": _aurc,
    "ece": _ece("confidence"),
    "ece_after": _ece("cooled_confidence"),
    "nll_after": _nll,
    "bleu": _bleu,
}
