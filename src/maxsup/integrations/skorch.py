"""skorch's classifier with a loss of this package, whose ``predict_proba`` gives probabilities.

**Use it** as ``RegularizedClassifier(MyModule, criterion=MaxSupLoss, criterion__alpha=0.1)``, in place of
``NeuralNetClassifier``. That one guesses from the class of the criterion whether a module gives logits, knows torch's
own criteria only, and hands out the logits as probabilities with any other.
**Evaluation** is plain cross-entropy: skorch switches its criterion together with its module.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from maxsup.core.installation import install_command
from maxsup.losses import MaxSupLoss

try:
    from skorch import NeuralNetClassifier
except ImportError as error:
    raise ImportError(
        f"maxsup.integrations.skorch needs skorch; got none. Install it with {install_command('skorch')}."
    ) from error

__all__ = ["RegularizedClassifier"]

_PROBABILITIES = partial(torch.softmax, dim=-1)


class RegularizedClassifier(NeuralNetClassifier):
    """``NeuralNetClassifier`` for a module that gives logits and a loss of this package.

    Args:
        module: As ``NeuralNetClassifier`` takes it; it must return logits.
        criterion: Class of the loss; its options are ``criterion__alpha`` and so on.
        predict_nonlinearity: What turns outputs into probabilities.
        others: What ``NeuralNetClassifier`` takes.
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
