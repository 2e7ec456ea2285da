"""A small network trained with optax and MaxSup.

The one changed line is in `objective`: `optax.softmax_cross_entropy_with_integer_labels(logits, labels)` becomes
`maxsup_cross_entropy(logits, labels, alpha)`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from maxsup.integrations.jax import maxsup_cross_entropy

NUM_SAMPLES, NUM_FEATURES, NUM_CLASSES, NUM_STEPS = 256, 8, 4, 60
ALPHA = optax.linear_schedule(0.1, 0.2, NUM_STEPS - 1)


def make_data(seed: int = 0) -> tuple[jax.Array, jax.Array]:
    """Points around one centre a class."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(NUM_CLASSES, NUM_FEATURES))
    labels = generator.integers(NUM_CLASSES, size=NUM_SAMPLES)
    points = centres[labels] + 0.7 * generator.normal(size=(NUM_SAMPLES, NUM_FEATURES))
    return jnp.asarray(points, dtype=jnp.float32), jnp.asarray(labels)


def network(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jax.nn.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def initial_params(seed: int = 0) -> dict[str, jax.Array]:
    first, second = jax.random.split(jax.random.key(seed))
    w1 = 0.3 * jax.random.normal(first, (NUM_FEATURES, 16))
    w2 = 0.3 * jax.random.normal(second, (16, NUM_CLASSES))
    return {"w1": w1, "b1": jnp.zeros(16), "w2": w2, "b2": jnp.zeros(NUM_CLASSES)}


def objective(params: dict[str, jax.Array], x: jax.Array, labels: jax.Array, alpha: jax.Array) -> jax.Array:
    return maxsup_cross_entropy(network(params, x), labels, alpha).mean()


def main() -> list[float]:
    x, labels = make_data()
    params, optimizer = initial_params(), optax.adam(0.02)
    state, losses = optimizer.init(params), []
    step = jax.jit(jax.value_and_grad(objective))
    for number in range(NUM_STEPS):
        loss, gradient = step(params, x, labels, ALPHA(number))
        updates, state = optimizer.update(gradient, state)
        params = optax.apply_updates(params, updates)
        losses.append(float(loss))
    print(f"training loss {losses[0]:.4f} -> {losses[-1]:.4f}; plain {float(objective(params, x, labels, 0.0)):.4f}")
    return losses


if __name__ == "__main__":
    main()
