"""Use a loss of this package in the Hugging Face ``Trainer``: classification, tagging, causal and seq2seq models.

**Use it** as ``loss = TrainerLoss(alpha=0.1)`` with ``Trainer(compute_loss_func=loss, callbacks=[loss.callback()])``.
**Denominator.** The sum is divided by ``num_items_in_batch``, so accumulation and several processes give the gradients
of the whole batch. Class weights scale each sample and do not change the denominator.
**Evaluation** is ``F.cross_entropy``.
"""

from maxsup.integrations.huggingface.callback import TrainerLossCallback
from maxsup.integrations.huggingface.linear import LinearLoss, use_linear_loss
from maxsup.integrations.huggingface.models import DecoderInputsCollator
from maxsup.integrations.huggingface.trainer_loss import TrainerLoss

__all__ = ["DecoderInputsCollator", "LinearLoss", "TrainerLoss", "TrainerLossCallback", "use_linear_loss"]
