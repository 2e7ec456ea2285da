"""A whole comparison in a few sentences: what was shown of each loss, what stayed open, what cannot be seen here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxsup.studies.power import MIN_SEEDS, seeds_needed


def conclusions(losses: Sequence[Mapping[str, Any]], metrics: Sequence[Mapping[str, Any]], baseline: str) -> list[str]:
    """Sentences for a reader who reads nothing else.

    Args:
        losses: As in ``summary.json``, one entry a loss.
        metrics: As in ``summary.json``.
        baseline: What they were compared with.

    Example:
        >>> accuracy = {"name": "accuracy", "title": "accuracy", "unit": "%", "digits": 2, "factor": 100.0}
        >>> entry = {"difference": 0.01, "is_conclusive": True, "is_better": True, "num_pairs": 6}
        >>> losses = [{"loss": "maxsup", "is_baseline": False, "metrics": {"accuracy": entry}}]
        >>> conclusions(losses, [accuracy], "ls")[0]
        'maxsup against ls: accuracy 1.00 points higher.'
    """
    sentences = []
    others = [loss for loss in losses if not loss["is_baseline"]]
    num_pairs = max((entry["num_pairs"] for loss in others for entry in loss["metrics"].values()), default=0)
    if num_pairs < MIN_SEEDS:
        return [
            f"Nothing can be concluded: with fewer than {MIN_SEEDS} paired seeds (here {num_pairs}) no difference of "
            "any size can be shown."
        ]
    for loss in others:
        shown, left_open = [], []
        for metric in metrics:
            entry = loss["metrics"][metric["name"]]
            if entry["is_conclusive"]:
                word = "higher" if entry["difference"] > 0 else "lower"
                shown.append(f"{metric['title']} {_size(entry['difference'], metric)} {word}")
            elif entry["num_pairs"]:
                left_open.append(metric["title"])
        text = f"{loss['loss']} against {baseline}: {', '.join(shown) or 'no difference was shown'}."
        sentences.append(f"{text} Open: {', '.join(left_open)}." if shown and left_open else text)
    if len(others) > 1 and num_pairs < seeds_needed(len(others)):
        sentences.append(
            f"Each of these stands alone. Corrected for {len(others)} comparisons (Holm), {num_pairs} seeds can show "
            f"nothing; {seeds_needed(len(others))} could."
        )
    sentences.append(
        "All of it holds for this recipe, this data and these strengths; other data and longer training may differ."
    )
    return sentences


def _size(difference: float, metric: Mapping[str, Any]) -> str:
    unit = {"%": " points", "": ""}.get(metric["unit"], f" {metric['unit']}")
    return f"{abs(difference) * metric['factor']:.{metric['digits']}f}{unit}"
