"""optax training with MaxSup, as the example shows it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import losses as reference

pytestmark = pytest.mark.slow


def test_the_example_learns_and_starts_at_the_reference() -> None:
    pytest.importorskip("optax")
    from examples import jax_training as example

    x, labels = example.make_data()
    rows = np.asarray(example.network(example.initial_params(), x)).tolist()
    values = [reference.maxsup(row, label, alpha=0.1) for row, label in zip(rows, labels.tolist(), strict=True)]
    losses = example.main()
    assert losses[0] == pytest.approx(float(np.mean(values)), abs=1e-5)
    assert losses[-1] < losses[0] - 0.5
