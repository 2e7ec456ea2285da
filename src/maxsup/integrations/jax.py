"""MaxSup for JAX as pure functions in the style of optax, with one value per example.

Replace ``optax.softmax_cross_entropy_with_integer_labels(logits, labels)`` by
``maxsup_cross_entropy(logits, labels, alpha=0.1)``, and take the mean over the examples yourself.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from maxsup.core.checks import check_number
from maxsup.integrations.checks import not_installed

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise not_installed("jax") from error

__all__ = ["maxsup_cross_entropy", "maxsup_penalty"]

if TYPE_CHECKING:
    from jax.typing import ArrayLike


def maxsup_cross_entropy(
    logits: ArrayLike, labels: ArrayLike, alpha: float | jax.Array = 0.1, where: ArrayLike | None = None, axis: int = -1
) -> jax.Array:
    r"""Return cross-entropy with Max Suppression, one value per example.

    .. math:: H(y, q) + \alpha \Bigl( z_{max} - \frac{1}{K} \sum_k z_k \Bigr)

    The function works under ``jit``, ``vmap`` and ``grad``. Classes with a logit of ``-inf`` are left out of the mean
    and get no gradient. The first of tied top logits gets the whole gradient (``jnp.max`` would share it). Half
    precision is computed and returned in float32. A label outside the classes gives ``nan``, because a compiled
    function cannot raise an error.

    Args:
        logits: Unnormalised scores, with the classes on ``axis``.
        labels: Class indices, in the shape of ``logits`` without ``axis``, or probabilities in its shape.
        alpha: Strength. An array is not checked, so a schedule works inside ``jit``.
        where: Mask of examples, in the shape of the result (others give 0 and no gradient), or of classes, in the shape
            of ``logits`` (others are treated as ``-inf``).
        axis: Axis of the classes.

    Example:
        >>> import jax.numpy as jnp
        >>> logits = jnp.array([[2.0, 0.5, -1.0, 0.0, 1.0], [2.0, 0.5, -1.0, 0.0, 1.0]])
        >>> maxsup_cross_entropy(logits, jnp.array([4, 0])).round(4).tolist()
        [1.72439..., 0.72439...]
    """
    if not isinstance(alpha, jax.Array):
        check_number("alpha", alpha)
    labels = jnp.asarray(labels)
    rows, is_counted = _rows(logits, where, axis)
    log_probs = jax.nn.log_softmax(rows, axis=-1)
    if jnp.issubdtype(labels.dtype, jnp.floating):
        if labels.shape != jnp.shape(logits):
            raise ValueError(
                f"labels that are probabilities must have the shape of the logits, {jnp.shape(logits)}; got "
                f"{labels.shape}. Use labels.astype(int) for class indices."
            )
        probs = jnp.moveaxis(labels, axis, -1).astype(rows.dtype)
        # A masked class costs inf; if its target probability is 0 it must cost 0, but 0 * inf is nan.
        costs = jnp.where((log_probs == -jnp.inf) & (probs == 0), 0.0, -log_probs)
        is_counted = is_counted & (probs.sum(axis=-1) != 0)
        cross_entropy = (probs * costs).sum(axis=-1)
    else:
        if labels.shape != rows.shape[:-1] or labels.dtype == bool:
            raise ValueError(
                f"labels that are class indices must be integers of shape {rows.shape[:-1]}; got {labels.dtype} of "
                f"shape {labels.shape}. Use labels.astype(float) for one-hot labels."
            )
        # A negative index would turn a forgotten padding label into a class; an index past the end gives nan.
        index = jnp.where(labels < 0, rows.shape[-1], labels)
        index = jnp.where(is_counted, index, 0)
        cross_entropy = -jnp.take_along_axis(log_probs, index[..., None], axis=-1)[..., 0]
    return jnp.where(is_counted, cross_entropy + alpha * _top_gap(rows), 0.0)


def maxsup_penalty(logits: ArrayLike, where: ArrayLike | None = None, axis: int = -1) -> jax.Array:
    """Return the gap between the top logit and the mean logit, one value per example, to add to your own loss.

    Arguments are those of :func:`maxsup_cross_entropy`.

    Example:
        >>> import jax.numpy as jnp
        >>> maxsup_penalty(jnp.array([[3.0, 0.0, 0.0], [1.0, 1.0, 1.0]])).tolist()
        [2.0, 0.0]
    """
    rows, is_counted = _rows(logits, where, axis)
    return jnp.where(is_counted, _top_gap(rows), 0.0)


def _rows(logits: ArrayLike, where: ArrayLike | None, axis: int) -> tuple[jax.Array, jax.Array]:
    """Return logits with the classes last, at least in single precision, and a mask of the examples that count."""
    values = jnp.asarray(logits)
    if values.ndim == 0 or not jnp.issubdtype(values.dtype, jnp.floating):
        raise ValueError(
            f"logits must be floating-point scores with an axis of classes; got {values.dtype} of shape "
            f"{values.shape}. Pass the raw outputs of the classifier."
        )
    rows = jnp.moveaxis(values, operator.index(axis), -1)
    rows = rows.astype(jnp.promote_types(rows.dtype, jnp.float32))
    shape = rows.shape[:-1]
    if where is None:
        return rows, jnp.ones(shape, dtype=bool)
    chosen = jnp.asarray(where)
    if chosen.shape == values.shape:
        classes = jnp.moveaxis(chosen, axis, -1).astype(bool)
        is_counted = classes.any(axis=-1)
        rows = jnp.where(classes, rows, -jnp.inf)
    elif chosen.shape == shape:
        is_counted = chosen.astype(bool)
    else:
        raise ValueError(
            f"where must have the shape of the examples, {shape}, or of the logits, {values.shape}; got "
            f"{chosen.shape}. Use labels != -100 for padded examples."
        )
    # Masked first, so that an example that does not count may hold any value, nan included.
    return jnp.where(is_counted[..., None], rows, 0.0), is_counted


def _top_gap(rows: jax.Array) -> jax.Array:
    top = jnp.argmax(rows, axis=-1, keepdims=True)
    is_masked = rows == -jnp.inf
    mean = jnp.where(is_masked, 0.0, rows).sum(axis=-1) / (~is_masked).sum(axis=-1)
    return jnp.take_along_axis(rows, top, axis=-1)[..., 0] - mean
