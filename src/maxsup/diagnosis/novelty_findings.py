"""Does the confidence of a model tell images of another kind from its own?"""

from __future__ import annotations

from torch import Tensor

from maxsup.core.finding import Finding
from maxsup.diagnosis.findings import MIN_SAMPLES, Numbers, too_few
from maxsup.metrics import detection, novelty_scores

TOPIC = "Other images"
AUROC_FINE, AUROC_LOW = 0.9, 0.7
_GAIN = 0.02  # in AUROC, from which on another score is worth a change
_WORDS = {"max_probability": "top probability", "max_logit": "top logit", "energy": "energy"}


def novelty_numbers(known: Tensor, others: Tensor) -> dict[str, float]:
    """Return AUROC and FPR95 of the scores of logits ``(N, K)`` against those of other images ``(M, K)``."""
    found = dict[str, float]()
    theirs = novelty_scores(others)
    for name, score in novelty_scores(known).items():
        measured = detection(score, theirs[name])
        found |= {f"ood_auroc_{name}": measured.auroc, f"ood_fpr95_{name}": measured.fpr95}
    return found


def novelty_finding(numbers: Numbers, num_others: int) -> Finding:
    """Report which score notices images of another kind."""
    if num_others < MIN_SAMPLES:
        return too_few(TOPIC, f"{num_others} other images", str(MIN_SAMPLES), num_others, MIN_SAMPLES)
    aurocs = {name: numbers[f"ood_auroc_{name}"]["value"] for name in _WORDS}
    usual, lost = aurocs["max_probability"], numbers["ood_fpr95_max_probability"]["value"]
    best = max(aurocs, key=lambda name: aurocs[name])
    sentence = (
        f"The top probability is higher for an image of its own kind than for another with a chance of {usual:.3f} "
        f"(from {AUROC_FINE} on is fine), the top logit with {aurocs['max_logit']:.3f}, the energy with "
        f"{aurocs['energy']:.3f}; a threshold on the top probability that rejects 95 % of the {num_others:,} others "
        f"rejects {lost:.1%} of its own."
    )
    advice = "Nothing to do."
    if aurocs[best] > usual + _GAIN:
        advice = f"Reject images by their {_WORDS[best]} instead of the top probability; no training is needed."
    elif usual < AUROC_FINE:
        advice = "Do not reject images by these scores alone; try the distance of features (maxsup analyze --what ood)."
    level = "good" if usual >= AUROC_FINE else "warning" if usual >= AUROC_LOW else "error"
    return Finding(TOPIC, level, sentence, advice, usual, AUROC_FINE)
