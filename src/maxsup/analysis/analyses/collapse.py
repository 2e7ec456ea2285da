"""Collapse of representations: how far samples of a class lie from one another, and from everything.

``within`` and ``total`` are mean cosine distances between features of one class and of all, ``r_squared`` is
``1 - within / total`` (Kornblith et al. 2021): pairs of a sample with itself included, every class counting the same.
``nc1`` to ``nc4`` are the properties of neural collapse (Papyan et al. 2020), 0 where collapse is complete.
``accuracy`` is that of the final weights on images without augmentation.

No number here has a direction: the paper's tables want ``within`` and ``r_squared`` high, of which one falls as the
other rises where ``total`` stays, and features with a high ``r_squared`` are known to transfer worse.
"""

from __future__ import annotations

from maxsup.analysis.outputs import RunOutputs
from maxsup.analysis.registry import ANALYSES, Analysis, Result
from maxsup.figures.features import collapse_figures
from maxsup.metrics import Interval, bootstrap_interval, neural_collapse
from maxsup.metrics.facts import numbers


def compute(run: RunOutputs, *, split: str, num_resamples: int = 200) -> Result:
    """Class separation and neural collapse of the training, the validation and the given split.

    Args:
        run: The run.
        split: Judged beside the training and the validation split.
        num_resamples: Behind the intervals.
    """
    found: dict[str, float | Interval] = {}
    sizes = {}
    for name in dict.fromkeys(("train", *(("val",) if run.has_val else ()), split)):
        outputs = run.split(name)
        assert outputs.features is not None
        separation = bootstrap_interval(
            "class_separation", outputs.features, outputs.labels, num_resamples=num_resamples
        )
        found |= {f"{name}_{field}": interval for field, interval in separation._asdict().items()}
        collapse = neural_collapse(outputs.features, outputs.labels, run.weight, run.bias)
        found |= {f"{name}_{field}": value for field, value in collapse._asdict().items()}
        # Losses of the family differ on wrong predictions only, so how many there are belongs beside the rest.
        is_right = outputs.logits.argmax(dim=1) == outputs.labels
        found[f"{name}_accuracy"] = float(is_right.double().mean())
        sizes[name] = len(outputs)
    return {"numbers": numbers(found), "data": {"num_samples": sizes}}


ANALYSES.register(
    "collapse",
    summary="within, total and r_squared of features, train and held out; neural collapse",
    paper="tab:feature, tab:feature2",
)(Analysis(compute, collapse_figures, counts=("num_resamples",)))
