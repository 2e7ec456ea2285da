"""A loss in the head of real transformers models, against the same loss of their logits."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from maxsup.functional import maxsup_cross_entropy, mbls_cross_entropy
from maxsup.integrations.huggingface import TrainerLoss, use_linear_loss
from maxsup.losses import MarginLabelSmoothingLoss, MaxSupLoss, RegularizedLoss, create_loss
from maxsup.losses.head import blocks, products
from maxsup.schedules import Linear
from tests.integration.integrations.tiny_transformers import (
    ALPHA,
    LLAMA,
    VOCABULARY,
    adapted,
    arguments,
    batch,
    created,
    gpt2_counted,
    gradient,
    gradient_of_the_whole,
    in_parts,
    trainer_for,
    weights,
)

TOLERANCE = 1e-5


def tied() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(tie_word_embeddings=True, **LLAMA))


def with_bias() -> nn.Module:
    config = transformers.PhiConfig(resid_pdrop=0.0, embd_pdrop=0.0, **LLAMA)
    model = transformers.PhiForCausalLM(config)
    nn.init.normal_(model.lm_head.bias)
    return model


def mixture() -> nn.Module:
    config = transformers.MixtralConfig(
        num_local_experts=2, output_router_logits=True, router_aux_loss_coef=0.5, pad_token_id=0, **LLAMA
    )
    return transformers.MixtralForCausalLM(config)


def contiguous() -> nn.Module:
    sizes = {"hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 16, "num_hidden_layers": 1}
    return transformers.OPTForCausalLM(
        transformers.OPTConfig(vocab_size=VOCABULARY, num_attention_heads=2, dropout=0.0, **sizes)
    )


def capped() -> nn.Module:
    config = transformers.Gemma2Config(final_logit_softcapping=0.2, head_dim=8, pad_token_id=0, **LLAMA)
    return transformers.Gemma2ForCausalLM(config)


def scaled(name: str, **options: Any) -> Callable[[], nn.Module]:
    sizes = {**LLAMA, "pad_token_id": 0, **options}
    return lambda: getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**sizes))


SCALED = {
    "cohere": scaled("Cohere", logit_scale=0.5),
    "granite": scaled("Granite", logits_scaling=3.0),
    "recurrent gemma": scaled("RecurrentGemma", logits_soft_cap=0.2, lru_width=16, num_hidden_layers=3, head_dim=8),
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    **SCALED,
    "gpt2": gpt2_counted,
    "tied llama": tied,
    "head with bias": with_bias,
    "mixture of experts": mixture,
    "contiguous logits": contiguous,
    "soft-cap": capped,
    "bfloat16": lambda: tied().to(torch.bfloat16),
}


def made(name: str) -> nn.Module:
    torch.manual_seed(3)
    return MODELS[name]().train()


def logits_loss(model: nn.Module, inputs: dict[str, Tensor], alpha: float = ALPHA, **options: Any) -> Tensor:
    """The loss by way of the logits, shifted by slicing; further losses of the model are added as it says itself."""
    outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
    logits, labels = outputs.logits[:, :-1].float(), inputs["labels"][:, 1:]
    loss = maxsup_cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), alpha, **options)
    if outputs.get("aux_loss") is not None:
        loss = loss + model.config.router_aux_loss_coef * outputs.aux_loss
    return loss


# Values and gradients


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradient_are_those_of_the_logits(name: str) -> None:
    ours, theirs = made(name), made(name)
    use_linear_loss(ours, MaxSupLoss(alpha=ALPHA))
    outputs = ours(**batch())
    expected = logits_loss(theirs, batch())
    outputs.loss.backward()
    expected.backward()
    tolerance = 0.02 if name == "bfloat16" else TOLERANCE
    assert outputs.logits is None
    assert outputs.loss.item() == pytest.approx(expected.item(), abs=tolerance)
    assert gradient(theirs).abs().max() > 0.01
    assert (gradient(ours) - gradient(theirs)).abs().max() <= tolerance


@pytest.mark.parametrize(
    "way", ["accelerate", "checkpointing", "autocast", "compile", "tuple", "shift_labels", "deepcopy", "pickle"]
)
def test_ways_to_call_the_model_give_the_same_gradient(way: str) -> None:
    model, inputs = made("tied llama"), batch()
    reference = made("tied llama")
    use_linear_loss(model, MaxSupLoss(alpha=ALPHA))
    called: Any = model
    if way == "accelerate":
        called = Accelerator(cpu=True).prepare(model)
    elif way == "checkpointing":
        model.gradient_checkpointing_enable()
    elif way == "compile":
        called = torch.compile(model, backend="eager")
    elif way == "tuple":
        inputs["return_dict"] = False
    elif way == "shift_labels":
        inputs["shift_labels"] = nn.functional.pad(inputs["labels"], (0, 1), value=-100)[:, 1:]
    elif way == "deepcopy":
        called = model = copy.deepcopy(model)
    elif way == "pickle":
        called = model = pickle.loads(pickle.dumps(model))
    with torch.autocast("cpu", enabled=way == "autocast"):
        called(**inputs)[0].backward()
        logits_loss(reference, batch()).backward()
    assert (gradient(model) - gradient(reference)).abs().max() <= (0.02 if way == "autocast" else TOLERANCE)


def test_a_copy_of_the_model_has_a_head_of_its_own() -> None:
    model = made("tied llama")
    use_linear_loss(model, MaxSupLoss(alpha=ALPHA))
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
        assert other.eval()(**batch()).logits.abs().max() == 0
    other.train()(**batch()).loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_adapter_below_the_head_gets_the_gradient_of_the_logits() -> None:
    ours, theirs = adapted("v_proj"), adapted("v_proj")
    use_linear_loss(ours, MaxSupLoss(alpha=ALPHA))
    ours(**batch()).loss.backward()
    logits_loss(theirs, batch()).backward()
    assert gradient(theirs).abs().max() > 0.01
    assert (gradient(ours) - gradient(theirs)).abs().max() <= TOLERANCE


class _LargestTensor(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.numel = max([self.numel, *sizes])
        return result


def test_no_tensor_of_the_size_of_the_logits_ever_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SMALL_BYTES", 0)  # logits of a few MiB are held, which is faster
    monkeypatch.setattr(products, "BLOCK_BYTES", 1)
    num_tokens, vocabulary = 1024, 500
    config = transformers.LlamaConfig(**{**LLAMA, "vocab_size": vocabulary, "max_position_embeddings": num_tokens})
    model = transformers.LlamaForCausalLM(config).train()
    linear = use_linear_loss(model, MaxSupLoss(alpha=ALPHA))
    tokens = torch.randint(vocabulary, (num_tokens // 64, 64))
    with _LargestTensor() as largest:
        model(input_ids=tokens, labels=tokens).loss.backward()
    linear.remove()
    with _LargestTensor() as own:
        model(input_ids=tokens, labels=tokens).loss.backward()
    assert largest.numel < num_tokens * vocabulary / 2 < own.numel


# What stays as it was


def test_evaluation_generation_and_calls_without_labels_are_untouched() -> None:
    model, plain = made("tied llama"), made("tied llama")
    use_linear_loss(model, MaxSupLoss(alpha=ALPHA))
    inputs = batch()
    unlabelled = {"input_ids": inputs["input_ids"]}
    assert torch.equal(model(**unlabelled).logits, plain(**unlabelled).logits)
    with torch.no_grad():
        assert torch.equal(model(**inputs).loss, plain(**inputs).loss)
    model.eval(), plain.eval()
    ours, theirs = model(**inputs), plain(**inputs)
    assert torch.equal(ours.loss, theirs.loss)
    assert torch.equal(ours.logits, theirs.logits)
    generated = [each.generate(inputs["input_ids"][:2], max_new_tokens=3, do_sample=False) for each in (model, plain)]
    assert torch.equal(*generated)
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_a_loss_that_is_removed_leaves_the_models_own() -> None:
    model, plain = made("tied llama"), made("tied llama")
    use_linear_loss(model, MaxSupLoss(alpha=0.9))
    use_linear_loss(model, MaxSupLoss(alpha=ALPHA)).remove()
    assert torch.equal(model(**batch()).loss, plain(**batch()).loss)
    assert "forward" not in vars(model.lm_head)
    assert not model._forward_hooks


@pytest.mark.parametrize(
    ("loss", "function"),
    [
        (MarginLabelSmoothingLoss(ALPHA, margin=0.05), lambda *given: mbls_cross_entropy(*given, ALPHA, margin=0.05)),
        (MaxSupLoss(ALPHA, z_loss=0.1), lambda *given: maxsup_cross_entropy(*given, ALPHA, z_loss=0.1)),
        (create_loss("ce", z_loss=0.1), lambda *given: maxsup_cross_entropy(*given, 0.0, z_loss=0.1)),
        (MaxSupLoss(ALPHA).eval(), F.cross_entropy),
    ],
    ids=["margin", "z-loss", "z-loss alone", "evaluation"],
)
def test_other_losses_of_the_head_are_those_of_the_logits(loss: RegularizedLoss, function: Any) -> None:
    ours, theirs = made("soft-cap"), made("soft-cap")
    use_linear_loss(ours, loss)
    found = ours(**batch()).loss
    logits, labels = theirs(input_ids=batch()["input_ids"]).logits[:, :-1], batch()["labels"][:, 1:]
    expected = function(logits.flatten(0, 1), labels.flatten())
    found.backward(), expected.backward()
    assert found.item() == pytest.approx(expected.item(), abs=TOLERANCE)
    assert (gradient(ours) - gradient(theirs)).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", ["cohere", "soft-cap"])
def test_scaled_and_capped_logits_are_served_by_a_compiled_model(name: str) -> None:
    model, reference = made(name), made(name)
    use_linear_loss(model, MaxSupLoss(alpha=ALPHA))
    torch.compile(model, backend="eager")(**batch()).loss.backward()
    logits_loss(reference, batch()).backward()
    assert (gradient(model) - gradient(reference)).abs().max() <= TOLERANCE


def test_metrics_of_a_call_are_those_of_its_logits() -> None:
    model, plain = made("granite"), made("granite")
    linear = use_linear_loss(model, MaxSupLoss(ALPHA))
    linear.has_metrics = True
    model(**batch())
    logits, labels = plain(input_ids=batch()["input_ids"]).logits[:, :-1].flatten(0, 1), batch()["labels"][:, 1:]
    counted = labels.flatten() != -100
    rows, labels = logits[counted], labels.flatten()[counted]
    assert linear.metrics is not None
    assert linear.metrics.num_counted == len(rows)
    assert linear.metrics.num_correct == (rows.argmax(1) == labels).sum()
    expected = torch.distributions.Categorical(logits=rows.detach()).entropy().mean()
    assert float(linear.metrics.entropy) == pytest.approx(float(expected), abs=1e-5)


def test_a_soft_cap_stays_whatever_happens() -> None:
    model, plain = made("soft-cap"), made("soft-cap")
    use_linear_loss(model, MaxSupLoss(ALPHA))
    with pytest.raises(ValueError, match="must have shapes"):
        model(**batch(), logits_to_keep=1)
    assert model.config.final_logit_softcapping == 0.2
    model(**batch())
    with torch.no_grad():
        assert torch.equal(model.eval()(**batch()).logits, plain.eval()(**batch()).logits)


def test_plain_cross_entropy_in_the_head_is_the_models_own_loss() -> None:
    model, plain = made("tied llama"), made("tied llama")
    use_linear_loss(model, create_loss("ce"))
    assert model(**batch()).loss.item() == pytest.approx(plain(**batch()).loss.item(), abs=1e-6)


# Trainer


def step_of_the_head(folder: Path, num_parts: int, *, loss: MaxSupLoss | None = None, **options: Any) -> Any:
    model = created("llama")
    linear = use_linear_loss(model, loss or MaxSupLoss(alpha=ALPHA))
    before = weights(model)
    args = arguments(folder, **options) if options else in_parts(folder, num_parts)
    trainer = trainer_for(model, "llama", None, args, callbacks=[linear.callback()])
    trainer.train()
    return trainer, before - weights(model)


@pytest.mark.slow
@pytest.mark.parametrize("num_parts", [1, 4])
def test_a_trainer_takes_the_step_of_the_whole_batch(num_parts: int, tmp_path: Path) -> None:
    trainer, step = step_of_the_head(tmp_path, num_parts)
    assert (step - gradient_of_the_whole("llama")).abs().max() <= TOLERANCE
    model = created("llama")
    expected = logits_loss(model, batch()).item()
    [entry] = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert entry["loss"] == pytest.approx(expected, abs=1e-4)
    assert entry["maxsup/alpha"] == ALPHA
    assert entry["maxsup/num_samples"] == (batch()["labels"][:, 1:] != -100).sum()
    trainer.model.load_state_dict(model.state_dict())
    assert trainer.evaluate()["eval_loss"] == pytest.approx(logits_loss(model, batch(), alpha=0.0).item(), abs=1e-5)


@pytest.mark.slow
def test_the_callback_advances_a_schedule_and_logs_what_the_trainer_loss_logs(tmp_path: Path) -> None:
    alpha = Linear(0.1, 0.2)
    trainer, _ = step_of_the_head(tmp_path, 1, loss=MaxSupLoss(alpha=alpha), max_steps=4, per_device_train_batch_size=8)
    loss = TrainerLoss(alpha=alpha)
    other = trainer_for(
        created("llama"), "llama", loss, arguments(tmp_path, max_steps=4, per_device_train_batch_size=8)
    )
    other.train()
    for ours, theirs in zip(trainer.state.log_history, other.state.log_history, strict=True):
        assert ours.keys() == theirs.keys()
        names = [name for name in ours if name.startswith("maxsup/")]
        assert {name: ours[name] for name in names} == pytest.approx({name: theirs[name] for name in names}, abs=1e-4)
