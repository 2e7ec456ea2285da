"""The losses as loops over Python floats, one function a registry name.

Every function takes the logits of one sample and a target (a class index, or a list of class probabilities where the
loss accepts one) and returns the value of that sample without class weights; ``weighted`` adds those. Classes with a
logit of minus infinity are absent: means, sums, maxima and norms run over the finite logits.
"""

import math
from collections.abc import Callable, Sequence

Target = int | Sequence[float]
Weight = Sequence[float] | None


def reference_of(name: str) -> Callable[..., float]:
    """Return the loop of a registered loss: the function of this file with its name."""
    assert name in globals(), f"write the loss {name!r} as a loop, in a function of that name, in {__file__}"
    return globals()[name]


def present(z: Sequence[float]) -> list[int]:
    """Classes that are not masked by a logit of minus infinity."""
    return [k for k, value in enumerate(z) if value > -math.inf]


def log_softmax(z: Sequence[float]) -> list[float]:
    top = max(z)
    lse = top + math.log(math.fsum(math.exp(value - top) for value in z))
    return [value - lse for value in z]


def softmax(z: Sequence[float]) -> list[float]:
    return [math.exp(value) for value in log_softmax(z)]


def mean(z: Sequence[float]) -> float:
    """Mean of the finite logits."""
    return math.fsum(z[k] for k in present(z)) / len(present(z))


def argmax(z: Sequence[float]) -> int:
    """First index of the largest logit."""
    best = 0
    for k, value in enumerate(z):
        if value > z[best]:
            best = k
    return best


def entropy(z: Sequence[float]) -> float:
    log_q = log_softmax(z)
    return -math.fsum(math.exp(log_q[k]) * log_q[k] for k in present(z))


def adaptive_alpha(z: Sequence[float]) -> float:
    """``1 - H(q) / log K``: 0 for a uniform prediction, 1 for a certain one."""
    return 1.0 - entropy(z) / math.log(len(present(z)))


def probabilities(target: Target, num_classes: int) -> list[float]:
    """The target as class probabilities."""
    if isinstance(target, int):
        return [1.0 if k == target else 0.0 for k in range(num_classes)]
    return list(target)


def sample_weight(target: Target, weight: Weight) -> float:
    """``w[y]`` for an index, ``sum_k w_k t_k`` for probabilities, 0 for a row of zeros."""
    if isinstance(target, int):
        return 1.0 if weight is None else weight[target]
    if weight is None:
        return 1.0 if any(target) else 0.0
    return math.fsum(w * t for w, t in zip(weight, target, strict=True))


def weighted(loss: Callable[..., float], z: Sequence[float], target: Target, weight: Weight, **options) -> float:
    """``s * loss(z, w t / s)``: weights move the target and scale the sample; for an index only the scale is left."""
    s = sample_weight(target, weight)
    if s == 0.0:
        return 0.0
    if weight is None or isinstance(target, int):
        return s * loss(z, target, **options)
    return s * loss(z, [w * t / s for w, t in zip(weight, target, strict=True)], **options)


def expected_logit(z: Sequence[float], target: Target) -> float:
    """``z_gt``, or ``sum_k t_k z_k`` for probabilities."""
    t = probabilities(target, len(z))
    return math.fsum(t[k] * z[k] for k in range(len(z)) if t[k] != 0.0)


def cross_entropy_between(t: Sequence[float], z: Sequence[float]) -> float:
    """``H(t, softmax(z))`` over the finite logits."""
    log_q = log_softmax(z)
    return -math.fsum(t[k] * log_q[k] for k in present(z))


def ce(z: Sequence[float], target: Target) -> float:
    log_q, t = log_softmax(z), probabilities(target, len(z))
    return -math.fsum(t[k] * log_q[k] for k in range(len(z)) if t[k] != 0.0)


def ls(z: Sequence[float], target: Target, *, alpha: float = 0.1, convention: str = "k") -> float:
    """``CE + alpha (z_gt - mean z)``."""
    if convention == "k-1":
        alpha = alpha * len(z) / (len(z) - 1)
    return ce(z, target) + alpha * (expected_logit(z, target) - mean(z))


def ls_with_torch_weights(
    z: Sequence[float], target: Target, weight: Weight, *, alpha: float = 0.1, convention: str = "k"
) -> float:
    """Label smoothing as torch weighs it: each class of the smoothed target by its own weight."""
    if convention == "k-1":
        alpha = alpha * len(z) / (len(z) - 1)
    t, log_q = probabilities(target, len(z)), log_softmax(z)
    w = [1.0] * len(z) if weight is None else weight
    return -math.fsum(w[k] * ((1.0 - alpha) * t[k] + alpha / len(z)) * log_q[k] for k in range(len(z)))


def maxsup(z: Sequence[float], target: Target, *, alpha: float = 0.1) -> float:
    return ce(z, target) + alpha * (max(z) - mean(z))


def mbls(z: Sequence[float], target: Target, *, alpha: float = 0.1, margin: float = 10.0) -> float:
    beyond = [max(z) - z[k] - margin for k in present(z) if max(z) - z[k] > margin]
    return ce(z, target) + alpha * math.fsum(beyond) / len(present(z))


def acls(
    z: Sequence[float],
    target: Target,
    *,
    alpha: float = 0.1,
    margin: float = 10.0,
    top: float = 1.0,
    others: float = 0.1,
) -> float:
    first = argmax(z)
    far = [max(max(z) - z[k] - margin, 0.0) ** 2 for k in present(z) if k != first]
    penalty = top * max(max(z) - margin, 0.0) ** 2 + (others * math.fsum(far) / len(far) if far else 0.0)
    return ce(z, target) + alpha * penalty


def poly1(z: Sequence[float], target: Target, *, epsilon: float = 1.0) -> float:
    q, t = softmax(z), probabilities(target, len(z))
    return ce(z, target) + epsilon * (1.0 - math.fsum(t[k] * q[k] for k in range(len(z))))


def dual_focal(z: Sequence[float], target: Target, *, gamma: float = 5.0) -> float:
    q, log_q, t = softmax(z), log_softmax(z), probabilities(target, len(z))
    costs = []
    for k in (k for k in range(len(z)) if t[k] != 0.0):
        below = max((q[j] for j in present(z) if z[j] < z[k]), default=0.0)
        costs.append(t[k] * (below - math.expm1(log_q[k])) ** gamma * -log_q[k])
    return math.fsum(costs)


def distillation(
    z: Sequence[float],
    target: Target,
    *,
    teacher_logits: Sequence[float],
    alpha: float = 0.9,
    temperature: float = 4.0,
) -> float:
    p = softmax([value / temperature for value in teacher_logits])
    log_q = log_softmax([value / temperature for value in z])
    divergence = math.fsum(p[k] * (math.log(p[k]) - log_q[k]) for k in present(z) if p[k] > 0.0)
    return (1.0 - alpha) * ce(z, target) + alpha * temperature**2 * divergence


def squared_log_sum(z: Sequence[float]) -> float:
    """``(log sum exp z)^2``."""
    top = max(z)
    return (top + math.log(math.fsum(math.exp(z[k] - top) for k in present(z)))) ** 2


def maxsup_adaptive(z: Sequence[float], target: Target, *, alpha: float = 0.1) -> float:
    """MaxSup with the strength of each sample scaled by its own confidence."""
    return maxsup(z, target, alpha=alpha * adaptive_alpha(z))


def reg_only(z: Sequence[float], target: int, *, alpha: float = 0.1) -> float:
    gaps = [z[target] - z[m] for m in present(z) if z[m] < z[target]]
    return ce(z, target) + (alpha * math.fsum(gaps) / len(gaps) if gaps else 0.0)


def err_amp_mean(z: Sequence[float], target: int, *, alpha: float = 0.1) -> float:
    gaps = [z[target] - z[n] for n in present(z) if z[n] > z[target]]
    return ce(z, target) + (alpha * math.fsum(gaps) / len(gaps) if gaps else 0.0)


def err_amp_max(z: Sequence[float], target: int, *, alpha: float = 0.1) -> float:
    return ce(z, target) + alpha * (z[target] - max(z))


def logit_penalty(z: Sequence[float], target: Target, *, beta: float = 2e-3) -> float:
    return ce(z, target) + beta / 2 * math.fsum(z[k] ** 2 for k in present(z))


def logit_norm(z: Sequence[float], target: Target, *, tau: float = 0.04) -> float:
    norm = math.sqrt(math.fsum(z[k] ** 2 for k in present(z)))
    return ce([value / (tau * (norm + 1e-7)) for value in z], target)


def confidence_penalty(z: Sequence[float], target: Target, *, beta: float = 0.1) -> float:
    return ce(z, target) - beta * entropy(z)


def ols(z: Sequence[float], target: Target, *, matrix: Sequence[Sequence[float]], alpha: float = 0.5) -> float:
    """``(1 - alpha) CE + alpha H(matrix[y], q)``; probabilities mix the rows of the matrix."""
    t = probabilities(target, len(z))
    row = [math.fsum(t[c] * matrix[c][k] for c in range(len(z))) for k in range(len(z))]
    return (1.0 - alpha) * ce(z, target) + alpha * cross_entropy_between(row, z)


def zipf_distribution(scores: Sequence[float], target: int, allowed: Sequence[int], power: float) -> dict[int, float]:
    """``p_k`` proportional to ``rank_k ** -power``; ties share the smallest rank, the target's rank is skipped."""
    mass = {}
    for k in allowed:
        if k != target:
            rank = 1 + sum(1 for j in allowed if scores[j] > scores[k])
            mass[k] = rank**-power
    total = math.fsum(mass.values())
    return {k: value / total for k, value in mass.items()}


def zipf_kl(z: Sequence[float], target: int, votes: Sequence[float] | None = None, power: float = 1.0) -> float:
    """``KL(p || q~)`` with ``q~`` the softmax over the classes other than the target."""
    p = zipf_distribution(z if votes is None else votes, target, present(z), power)
    classes = list(p)
    log_q = dict(zip(classes, log_softmax([z[k] for k in classes]), strict=True)) if classes else {}
    return math.fsum(p[k] * (math.log(p[k]) - log_q[k]) for k in classes)


def zipf_ls(
    z: Sequence[float],
    target: int,
    *,
    alpha: float = 0.1,
    votes: Sequence[float] | None = None,
    power: float = 1.0,
) -> float:
    return ce(z, target) + alpha * zipf_kl(z, target, votes, power)


def adaptive_ls(z: Sequence[float], target: Target, *, teacher_logits: Sequence[float]) -> float:
    """``(1 - a) H(t, q) + a H(teacher, q)`` with ``a`` the adaptive alpha of the sample."""
    a = adaptive_alpha(z)
    return (1.0 - a) * ce(z, target) + a * cross_entropy_between(softmax(teacher_logits), z)


def focal_cost(log_q: float, gamma: float) -> float:
    """``(1 - q) ** gamma * -log q``."""
    return (-math.expm1(log_q)) ** gamma * -log_q


def focal(z: Sequence[float], target: Target, *, gamma: float = 2.0) -> float:
    log_q, t = log_softmax(z), probabilities(target, len(z))
    return math.fsum(t[k] * focal_cost(log_q[k], gamma) for k in range(len(z)) if t[k] != 0.0)


def focal_ls(
    z: Sequence[float], target: Target, *, alpha: float = 0.1, gamma: float = 2.0, mode: str = "additive"
) -> float:
    if mode == "additive":
        return focal(z, target, gamma=gamma) + alpha * (expected_logit(z, target) - mean(z))
    log_q = log_softmax(z)
    if mode == "gt_modulated":
        return (-math.expm1(log_q[target])) ** gamma * ls(z, target, alpha=alpha)
    uniform = math.fsum(focal_cost(log_q[k], gamma) for k in present(z)) / len(present(z))
    return (1.0 - alpha) * focal(z, target, gamma=gamma) + alpha * uniform


def focal_maxsup(z: Sequence[float], target: Target, *, alpha: float = 0.1, gamma: float = 2.0) -> float:
    return focal(z, target, gamma=gamma) + alpha * (max(z) - mean(z))
