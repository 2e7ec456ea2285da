"""Collapse of representations: class separation and neural collapse of features.

``within`` and ``total`` are mean cosine distances between features of one class and of all classes, and ``r_squared``
is ``1 - within / total`` (Kornblith et al. 2021). Every class has the same weight, and a sample is also paired with
itself. ``nc1`` to ``nc4`` are the properties of neural collapse (Papyan et al. 2020), 0 at full collapse. Ranks
(:mod:`maxsup.metrics.spectrum`) count the directions that features fill. ``accuracy``
is that of the final weights on images without augmentation.

No number here has a direction: in the paper's tables high is good for both ``within`` and ``r_squared``, although one
falls as the other rises at constant ``total``, and features with a high ``r_squared`` are known to transfer worse.
"""

from __future__ import annotations

from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.figures.features import collapse_figures
from maxsup.metrics import Interval, accuracy, bootstrap_interval, feature_rank, neural_collapse
from maxsup.metrics.facts import numbers


def compute(run: RunOutputs, *, split: str, num_resamples: int = 200) -> Result:
    """Compute class separation, neural collapse and ranks of the training, the validation and the given split.

    Options:
        num_resamples: Number of bootstrap resamples for the intervals.
    """
    found: dict[str, float | Interval] = {}
    sizes = {}
    for name in dict.fromkeys(("train", *(("val",) if run.has_val else ()), split)):
        samples = run.features(name)
        separation = bootstrap_interval("class_separation", *samples, num_resamples=num_resamples)
        measured = separation._asdict() | neural_collapse(*samples, run.weight, run.bias)._asdict()
        measured |= feature_rank(*samples)._asdict()
        # Losses of this family differ only on wrong predictions, so report their share too.
        measured["accuracy"] = accuracy(run.split(name).logits, samples[1])
        found |= {f"{name}_{field}": value for field, value in measured.items()}
        sizes[name] = len(samples[1])
    return {"numbers": numbers(found), "data": {"num_samples": sizes}}


ANALYSES.register(
    "collapse",
    summary="within, total and r_squared of features, train and held out; neural collapse, ranks",
    paper="tab:feature, tab:feature2",
)(Analysis(compute, collapse_figures, counts=("num_resamples",)))
