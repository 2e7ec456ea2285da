"""Distillation: train a student of a run, and measure what the teacher knows about wrong classes.

The student is trained with the loss ``distillation`` in ``RUN/distillation/``, where it resumes after an interruption.
It uses the run's own recipe and seed with ``overrides``, for instance a smaller network. On the split:

- **student_accuracy**, **student_nll**: metrics of the student's predictions;
- **agreement**, **kl**: how often student and teacher predict the same class, and ``KL(teacher || student)`` in nats;
- **wrong_class_information**: information of the teacher, softened by ``temperature``, about wrong classes:
  ``log(K - 1)`` minus the entropy of its prediction without the true class, in nats, mean over images. Label smoothing
  is known to erase it (Mueller et al. 2019);
- **similarity_symmetry**: symmetry of the teacher's ranking of wrong classes: the correlation, over pairs of classes a
  and b, of the mean centred logit for b on images of a with that for a on images of b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.core.config import Recipe, parse_recipe, recipe_digest
from maxsup.lab.figures.probes import distillation_figures
from maxsup.metrics import accuracy, negative_log_likelihood
from maxsup.metrics.facts import numbers


def compute(
    run: RunOutputs, *, split: str, overrides: Sequence[str] = (), alpha: float = 0.9, temperature: float = 4.0
) -> Result:
    """Train a student of the run, and measure the student and its teacher.

    Options:
        overrides: Changes ``key.sub=value`` of the student's recipe, which is otherwise the teacher's.
        alpha: Weight of the teacher in the student's loss.
        temperature: Temperature of both predictions.
    """
    plan = student_recipe(run, overrides, alpha, temperature)
    # The name does not depend on the path of the teacher: the folder of a run may move.
    name = f"{run.weights}-{recipe_digest(plan.changed(teacher=None))}"
    student = run.trained(plan, run.run.path / "distillation" / name, name="distillation", what="training a student")
    told, learnt = run.split(split), student.split(split)
    logits, labels = told.logits.double(), told.labels
    log_p, log_q = logits.log_softmax(dim=1), learnt.logits.double().log_softmax(dim=1)
    found = {
        "student_accuracy": accuracy(learnt.logits, learnt.labels),
        "student_nll": negative_log_likelihood(learnt.logits, learnt.labels),
        "agreement": float((log_p.argmax(1) == log_q.argmax(1)).double().mean()),
        "kl": float((log_p.exp() * (log_p - log_q)).sum(1).mean()),
        "wrong_class_information": wrong_class_information(logits, labels, temperature),
        "similarity_symmetry": similarity_symmetry(logits, labels),
        "teacher_accuracy": accuracy(told.logits, labels),
    }
    data = {"alpha": alpha, "temperature": temperature, "student": plan.model.name}
    return {"numbers": numbers(found), "data": data}


def student_recipe(run: RunOutputs, overrides: Sequence[str], alpha: float, temperature: float) -> Recipe:
    """Return the recipe of the student: its teacher's, with the distillation loss and ``overrides``."""
    words = ["loss.name=distillation", f"loss.alpha={alpha}", f"loss.temperature={temperature}", *overrides]
    recipe = parse_recipe(run.recipe.model_dump(mode="json"), words, source="student")
    return recipe.changed(teacher=str(run.run.path.resolve()))


def wrong_class_information(logits: Tensor, labels: Tensor, temperature: float = 1.0) -> float:
    """Return ``log(K - 1)`` minus the entropy over the wrong classes, in nats, mean over samples.

    Example:
        >>> labels = torch.tensor([0])
        >>> wrong_class_information(torch.tensor([[9.0, 1.0, 1.0, 1.0]]), labels)
        0.0
        >>> round(wrong_class_information(torch.tensor([[9.0, 3.0, 1.0, 1.0]]), labels), 3)
        0.433
    """
    others = logits.scatter(1, labels.unsqueeze(1), -math.inf) / temperature
    log_probs = others.log_softmax(dim=1)
    entropy = -(log_probs.exp() * log_probs.masked_fill(log_probs == -math.inf, 0.0)).sum(dim=1)
    return float((math.log(logits.shape[1] - 1) - entropy).mean().clamp(min=0)) if logits.shape[1] > 1 else math.nan


def similarity_symmetry(logits: Tensor, labels: Tensor) -> float:
    """Return the correlation of ``M[a, b]`` with ``M[b, a]``.

    Row ``a`` of ``M`` holds the mean logits of samples of class ``a``, centred over the wrong classes.

    Example:
        >>> logits = torch.tensor([[9.0, 3.0, 1.0], [4.0, 9.0, 0.0], [0.0, 1.0, 9.0]])
        >>> round(similarity_symmetry(logits, torch.tensor([0, 1, 2])), 2)
        0.29
    """
    size = logits.shape[1]
    member = torch.nn.functional.one_hot(labels, size).to(logits)
    # Only differences between wrong classes matter, so subtract their mean.
    wrong = (logits * (1 - member)).sum(dim=1, keepdim=True) / max(size - 1, 1)
    means = member.t() @ (logits - wrong) / member.sum(dim=0).unsqueeze(1)
    upper = torch.triu_indices(size, size, 1)
    pairs = torch.stack([means[upper[0], upper[1]], means[upper[1], upper[0]]])
    pairs = pairs[:, pairs.isfinite().all(dim=0)]  # classes without a sample have no mean
    both = torch.cat([pairs, pairs.flip(0)], dim=1)  # pairs are unordered
    return float(torch.corrcoef(both)[0, 1]) if pairs.shape[1] > 1 else math.nan


def obstacle(run: RunOutputs, *, split: str, **options: Any) -> str | None:
    """Refuse weights other than the last, because a teacher is loaded from them."""
    return None if run.weights == "last" else "only the last weights of a run can be a teacher; use weights=last"


ANALYSES.register(
    "distillation",
    summary="a student of the run: accuracy, agreement with its teacher, the teacher's information on wrong classes",
    paper="-",
)(Analysis(compute, distillation_figures, obstacle=obstacle, trains=True, is_on_request=True))
