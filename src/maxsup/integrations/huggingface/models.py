"""Facts about a transformers model that a loss depends on: shifted labels and decoder inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch import nn
from torch.utils.hooks import RemovableHandle

_DECODER_INPUTS = ("decoder_input_ids", "decoder_inputs_embeds")


def unwrapped(model: Any) -> Any:
    """Return the transformers model inside a PEFT model or a multi-device wrapper."""
    while isinstance(getattr(model, "module", None), nn.Module):
        model = model.module
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def config_value(model: Any, name: str) -> Any:
    """Return a value of the config of a model, wrapped or not, or None if there is none."""
    return getattr(getattr(unwrapped(model), "config", None), name, None)


def shifts_labels(model: Any) -> bool:
    """Return True if position ``t`` predicts label ``t + 1``, as in a causal language model, PEFT-wrapped or not."""
    # Imported late, because it loads all losses of transformers; with a Trainer they are loaded already.
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if config_value(model, "is_encoder_decoder"):
        return False
    name = type(unwrapped(model)).__name__
    return trainer_counts_shifted(model) or name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


def trainer_counts_shifted(model: Any) -> bool:
    """Return True if ``Trainer`` leaves the first label of each row out of ``num_items_in_batch``."""
    from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss

    return LOSS_MAPPING.get(str(getattr(unwrapped(model), "loss_type", None))) is ForCausalLMLoss


def warn_of_counted_first_labels(model: Any) -> None:
    """Warn if ``Trainer`` counts one label too many in each row of a causal model."""
    if not trainer_counts_shifted(model):
        warnings.warn(
            f"Trainer counts the first label of each row of {type(unwrapped(model)).__name__}, which nothing "
            "predicts, so the training loss is slightly too small. Set model.loss_type = 'ForCausalLM' before "
            "creating the Trainer, or set the first label of each row to -100.",
            UserWarning,
            stacklevel=3,
        )


class Rules(NamedTuple):
    """The settings of a model and its Trainer that a loss depends on."""

    model: Any
    accumulation: int
    shifts_labels: bool


class RulesOfModels:
    """Track the rules of the model called last, because ``Trainer`` passes outputs to a loss without their model."""

    def __init__(self) -> None:
        self.current: Rules | None = None
        self._handles: WeakKeyDictionary[nn.Module, RemovableHandle] = WeakKeyDictionary()

    def add(self, rules: Rules) -> None:
        """Use these rules. With two models or more, switch to the rules of the model that is called."""
        before, self.current = self.current, rules
        if before is not None and before.model is not rules.model:
            self._follow(before)
        if self._handles:
            self._follow(rules)

    def _follow(self, rules: Rules) -> None:
        def switch(module: nn.Module, positional: Any) -> None:
            self.current = rules

        if rules.model in self._handles:
            self._handles[rules.model].remove()
        self._handles[rules.model] = rules.model.register_forward_pre_hook(switch)


class DecoderInputsCollator:
    """A data collator that adds ``decoder_input_ids`` made from the labels, as the model itself would.

    ``Trainer`` with a custom loss does not pass labels to the model, so an encoder-decoder model lacks decoder inputs.
    For text, ``DataCollatorForSeq2Seq(tokenizer, model=model)`` does the same.

    Args:
        collator: Makes a batch with ``labels`` from a list of samples.
        model: The encoder-decoder model, which shifts labels to the right.
    """

    def __init__(self, collator: Callable[[Any], Any], model: Any) -> None:
        prepare = getattr(unwrapped(model), "prepare_decoder_input_ids_from_labels", None)
        if prepare is None:
            raise ValueError(
                "model must have prepare_decoder_input_ids_from_labels, as encoder-decoder models do; got "
                f"{type(unwrapped(model)).__name__}. Put decoder_input_ids into the batch in the data collator."
            )
        self.collator = collator
        self._prepare = prepare

    def __call__(self, features: Any) -> Any:
        """Return the batch of the inner collator with ``decoder_input_ids``."""
        batch = self.collator(features)
        if not any(name in batch for name in _DECODER_INPUTS):
            batch["decoder_input_ids"] = self._prepare(labels=batch["labels"])
        return batch


def expect_decoder_inputs(model: nn.Module) -> None:
    """Check in the next call of the model that the batch has decoder inputs."""

    def check(module: nn.Module, positional: Any, named: dict[str, Any]) -> None:
        if not positional and all(named.get(name) is None for name in (*_DECODER_INPUTS, "labels")):
            given = sorted(name for name, value in named.items() if value is not None)
            raise ValueError(
                f"batches for {type(module).__name__} must hold decoder_input_ids, because Trainer keeps the labels "
                f"for the loss; got {', '.join(given)}. Use DataCollatorForSeq2Seq(tokenizer, model=model), or "
                "data_collator=DecoderInputsCollator(collator, model)."
            )
        handle.remove()

    handle = unwrapped(model).register_forward_pre_hook(check, with_kwargs=True)
