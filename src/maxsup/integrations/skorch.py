"""A skorch classifier for losses of this package, whose ``predict_proba`` returns probabilities.

**Use it** as ``RegularizedClassifier(MyModule, criterion=MaxSupLoss, criterion__alpha=0.1)`` instead of
``NeuralNetClassifier``, which applies a softmax only with torch's criteria and returns logits as probabilities with any
other. **Evaluation** is plain cross-entropy: skorch switches the criterion together with the module.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from maxsup.integrations.checks import not_installed
from maxsup.losses import MaxSupLoss

try:
    from skorch import NeuralNetClassifier
except ImportError as error:
    raise not_installed("skorch") from error

__all__ = ["RegularizedClassifier"]


_PROBABILITIES = partial(torch.softmax, dim=-1)


class RegularizedClassifier(NeuralNetClassifier):
    """``NeuralNetClassifier`` for a module that returns logits and a loss of this package, with the same arguments.

    Set options of the ``criterion`` as ``criterion__alpha`` and so on. ``predict_nonlinearity`` turns logits into
    probabilities.
    """

    def __init__(
        self,
        module: Any,
        *others: Any,
        criterion: Any = MaxSupLoss,
        predict_nonlinearity: Any = _PROBABILITIES,
        **more: Any,
    ) -> None:
        super().__init__(module, *others, criterion=criterion, predict_nonlinearity=predict_nonlinearity, **more)
