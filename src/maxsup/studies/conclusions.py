"""A comparison in a few sentences: what holds after correction, what stands alone, what is equal, what is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxsup.studies.power import MIN_SEEDS, seeds_needed


def conclusions(losses: Sequence[Mapping[str, Any]], metrics: Sequence[Mapping[str, Any]], baseline: str) -> list[str]:
    """Sentences for a reader who reads nothing else; MaxSup, which most readers came for, is the first.

    Args:
        losses: As in ``summary.json``, one entry a loss.
        metrics: As in ``summary.json``.
        baseline: What they were compared with.

    Example:
        >>> accuracy = {"name": "accuracy", "title": "accuracy", "unit": "%", "digits": 1, "factor": 100.0}
        >>> entry = {"difference": 0.02, "low": 0.01, "high": 0.03, "is_conclusive": True, "num_pairs": 6}
        >>> losses = [{"loss": "maxsup", "title": "MaxSup", "is_baseline": False, "metrics": {"accuracy": entry}}]
        >>> conclusions(losses, [accuracy], "ls")[0]
        'MaxSup against ls: accuracy is 2.0 points higher [+1.0, +3.0].'
    """
    others = sorted((loss for loss in losses if not loss["is_baseline"]), key=lambda loss: "maxsup" not in loss["loss"])
    num_pairs = max((entry["num_pairs"] for loss in others for entry in loss["metrics"].values()), default=0)
    if num_pairs < MIN_SEEDS:
        return [
            f"Nothing can be concluded: with fewer than {MIN_SEEDS} paired seeds (here {num_pairs}) no difference of "
            "any size can be shown."
        ]
    name = next((loss["title"] for loss in losses if loss["is_baseline"]), baseline)
    sentences = [f"{loss['title']} against {name}{_found(loss, metrics, len(others))}" for loss in others]
    if len(others) > 1 and num_pairs < seeds_needed(len(others)):
        sentences.append(
            f"Each of these stands alone. Corrected for {len(others)} comparisons (Holm), {num_pairs} seeds can show "
            f"nothing; {seeds_needed(len(others))} could."
        )
    sentences.append(
        "All of it holds for this recipe, this data and these strengths; other data and longer training may differ."
    )
    return sentences


def _found(loss: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]], num_comparisons: int) -> str:
    """What was found of a loss, the surest first."""
    held: list[str] = []
    alone: list[str] = []
    equal: list[str] = []
    for metric in metrics:
        entry = loss["metrics"][metric["name"]]
        if entry["is_conclusive"]:
            is_held = num_comparisons == 1 or entry["holds_after_correction"]
            (held if is_held else alone).append(_difference(entry, metric))
        elif entry.get("is_equivalent"):
            equal.append(f"{metric['title']} is equal within {_text(metric['margin'], metric)}")
    parts = []
    if held:
        parts.append(f"{', after correction (Holm)' if num_comparisons > 1 else ''}: {_listed(held)}.")
    if alone:
        parts.append(f"{' Without correction also: ' if held else ', without correction: '}{_listed(alone)}.")
    if equal:
        sentence = _listed(equal)
        parts.append(f" {sentence[0].upper()}{sentence[1:]}." if parts else f": {sentence}.")
    return "".join(parts) or ": no difference was shown."


def _difference(entry: Mapping[str, Any], metric: Mapping[str, Any]) -> str:
    word = "higher" if entry["difference"] > 0 else "lower"
    low, high = (f"{entry[end] * metric['factor']:+.{metric['digits']}f}" for end in ("low", "high"))
    return f"{metric['title']} is {_text(abs(entry['difference']) * metric['factor'], metric)} {word} [{low}, {high}]"


def _text(printed: float, metric: Mapping[str, Any]) -> str:
    unit = {"%": " points", "": ""}.get(metric["unit"], f" {metric['unit']}")
    return f"{printed:.{metric['digits']}f}{unit}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
