"""Does the confidence of a model tell images of another kind from its own?"""

from __future__ import annotations

from torch import Tensor

from maxsup.core.finding import Finding
from maxsup.diagnosis.findings import MIN_SAMPLES, Numbers, too_few
from maxsup.metrics import detection, neighbour_score, novelty_scores
from maxsup.metrics.novelty import NUM_NEIGHBOURS

TOPIC = "Other images"
AUROC_FINE, AUROC_LOW = 0.9, 0.7
_GAIN = 0.02  # in AUROC, from which on another score is worth a change
_WORDS = {
    "max_probability": "top probability",
    "max_logit": "top logit",
    "energy": "energy",
    "knn": "distance to training features",
}


def novelty_numbers(
    known: Tensor, others: Tensor, features: tuple[Tensor, Tensor, Tensor] | None = None
) -> dict[str, float]:
    """Return AUROC and FPR95 of the scores of logits ``(N, K)`` against those of other images ``(M, K)``.

    ``features`` of training images, of the known images and of the others add the score of the nearest neighbours.
    """
    found = dict[str, float]()
    ours, theirs = novelty_scores(known), novelty_scores(others)
    if features is not None:
        train, own, other = features
        k = min(NUM_NEIGHBOURS, len(train))
        ours, theirs = (
            ours | {"knn": neighbour_score(train, own, k)},
            theirs | {"knn": neighbour_score(train, other, k)},
        )
    for name, score in ours.items():
        measured = detection(score, theirs[name])
        found |= {f"ood_auroc_{name}": measured.auroc, f"ood_fpr95_{name}": measured.fpr95}
    return found


def novelty_finding(numbers: Numbers, num_others: int) -> Finding:
    """Report which score notices images of another kind."""
    if num_others < MIN_SAMPLES:
        return too_few(TOPIC, f"{num_others} other images", str(MIN_SAMPLES), num_others, MIN_SAMPLES)
    aurocs = {name: numbers[f"ood_auroc_{name}"]["value"] for name in _WORDS if f"ood_auroc_{name}" in numbers}
    usual, lost = aurocs["max_probability"], numbers["ood_fpr95_max_probability"]["value"]
    best = max(aurocs, key=lambda name: aurocs[name])
    sentence = (
        f"The top probability is higher for an image of its own kind than for another with a chance of {usual:.3f} "
        f"(from {AUROC_FINE} on is fine), the top logit with {aurocs['max_logit']:.3f}, the energy with "
        f"{aurocs['energy']:.3f}; a threshold on the top probability that rejects 95 % of the {num_others:,} others "
        f"rejects {lost:.1%} of its own."
    )
    if "knn" in aurocs:
        sentence += f" With the distance of features to those of training images the chance is {aurocs['knn']:.3f}."
    advice = "Nothing to do."
    if aurocs[best] > usual + _GAIN:
        advice = f"Reject images by their {_WORDS[best]} instead of the top probability; no training is needed."
    elif usual < AUROC_FINE and "knn" in aurocs:
        advice = "Do not reject images by these scores alone."
    elif usual < AUROC_FINE:
        advice = "Do not reject images by these scores alone; try the distance of features (maxsup analyze --what ood)."
    level = "good" if usual >= AUROC_FINE else "warning" if usual >= AUROC_LOW else "error"
    return Finding(TOPIC, level, sentence, advice, usual, AUROC_FINE)
