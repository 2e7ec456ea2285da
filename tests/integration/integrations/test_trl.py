"""A loss in the head under the real SFTTrainer, against the same loss of the logits of what the model was given."""

from pathlib import Path
from typing import Any

import datasets
import pytest
import tokenizers
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from maxsup.functional import maxsup_cross_entropy
from maxsup.integrations.huggingface import TrainerLoss
from maxsup.losses import MaxSupLoss
from tests.integration.integrations.tiny_transformers import ALPHA, BERT

trl = pytest.importorskip("trl", reason="the extra trl is not installed")
pytestmark = pytest.mark.slow
VOCABULARY, NUM_SAMPLES, AUXILIARY = 24, 8, 0.5
SMALL = {"vocab_size": VOCABULARY, "num_key_value_heads": 2, "max_position_embeddings": 64, **BERT}


def tokenizer() -> Any:
    words = {f"w{index}": index for index in range(VOCABULARY - 2)} | {"<pad>": VOCABULARY - 2, "</s>": VOCABULARY - 1}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>")


def rows(has_prompts: bool = False) -> Any:
    """Rows of different lengths; of those with a prompt the second half is learnt."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for index in range(NUM_SAMPLES):
        tokens = torch.randint(VOCABULARY - 2, (3 + index,), generator=generator).tolist()
        mask = [int(position >= len(tokens) // 2) for position in range(len(tokens))]
        made.append({"input_ids": tokens} | ({"completion_mask": mask} if has_prompts else {}))
    return datasets.Dataset.from_list(made)


def model(is_mixture: bool = False) -> nn.Module:
    torch.manual_seed(3)
    if is_mixture:
        return transformers.MixtralForCausalLM(transformers.MixtralConfig(num_local_experts=2, **SMALL))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))


def settings(folder: Path, num_parts: int = 1, **options: Any) -> Any:
    return trl.SFTConfig(
        str(folder), **{
            "optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "max_steps": 1,
            "per_device_train_batch_size": NUM_SAMPLES // num_parts, "gradient_accumulation_steps": num_parts,
            "use_cpu": True, "bf16": False, "report_to": [], "save_strategy": "no", "disable_tqdm": True,
            "logging_steps": 1, "max_length": 64, "gradient_checkpointing": False,
        } | options,
    )  # fmt: skip


def trainer_of(folder: Path, trained: nn.Module | None = None, *, has_prompts: bool = False, **options: Any) -> Any:
    from maxsup.integrations.trl import LinearSFTTrainer

    more = {name: options.pop(name) for name in ("peft_config", "loss") if name in options}
    return LinearSFTTrainer(
        trained or model(), args=settings(folder, **options), train_dataset=rows(has_prompts),
        eval_dataset=rows(has_prompts), processing_class=tokenizer(), **{"loss": MaxSupLoss(alpha=ALPHA)} | more,
    )  # fmt: skip


def trained_weights(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten().clone() for each in model.parameters() if each.requires_grad])


def whole_loss(model: nn.Module, batches: list[dict[str, Any]], alpha: float) -> Tensor:
    """The loss over all micro-batches at once, by way of the logits; the further loss of experts counts on average."""
    total, num_targets, further = torch.zeros(()), 0, torch.zeros(())
    for batch in batches:
        outputs = model(
            **{name: value for name, value in batch.items() if name not in ("labels", "num_items_in_batch")}
        )
        logits, labels = outputs.logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()
        total = total + maxsup_cross_entropy(logits, labels, alpha, reduction="sum")
        num_targets += int((labels != -100).sum())
        if outputs.get("aux_loss") is not None:
            further = further + AUXILIARY * outputs.aux_loss / len(batches)
    return total / num_targets + further


CASES: dict[str, dict[str, Any]] = {
    "one batch": {},
    "accumulation": {"num_parts": 4},
    "completion only": {"num_parts": 2, "has_prompts": True, "completion_only_loss": True},
    "checkpointing": {"num_parts": 2, "gradient_checkpointing": True},
    "padding free": {"num_parts": 2, "padding_free": True, "max_length": None},
    "packing": {"num_parts": 1, "packing": True, "max_length": 16, "per_device_train_batch_size": 2},
    "wrapped": {"packing": True, "packing_strategy": "wrapped", "max_length": 16, "per_device_train_batch_size": 2},
    "experts": {"num_parts": 2, "router_aux_loss_coef": AUXILIARY},
    "adapters": {"num_parts": 2},
}


@pytest.mark.filterwarnings("ignore:.*(padding-free|Padding-free|packing|Flash).*")
@pytest.mark.parametrize("case", CASES)
def test_a_step_is_that_of_the_logits_of_all_micro_batches(case: str, tmp_path: Path) -> None:
    options, seen = dict(CASES[case]), []
    if case == "adapters":
        peft = pytest.importorskip("peft", reason="peft is not installed")
        options["peft_config"] = peft.LoraConfig(
            task_type="CAUSAL_LM", target_modules=["v_proj"], r=2, init_lora_weights=False
        )
    torch.manual_seed(5)
    trainer = trainer_of(tmp_path, model(is_mixture=case == "experts"), **options)
    before = trained_weights(trainer.model)
    twin = model(is_mixture=case == "experts")
    if case == "adapters":
        twin = peft.get_peft_model(twin, options["peft_config"])
        twin.load_state_dict(trainer.model.state_dict())
    if case == "experts":
        twin.config.output_router_logits = True
    inner = trainer.model.get_base_model() if case == "adapters" else trainer.model
    inner.register_forward_pre_hook(lambda module, positional, named: seen.append(named), with_kwargs=True)
    trainer.train()
    whole_loss(twin.train(), seen, ALPHA).backward()
    expected = torch.cat([each.grad.flatten() for each in twin.parameters() if each.requires_grad])
    assert expected.abs().max() > 0.01
    assert (before - trained_weights(trainer.model) - expected).abs().max() <= 1e-5
    [log] = [entry for entry in trainer.state.log_history if "loss" in entry]
    twin.zero_grad()
    assert log["maxsup/alpha"] == ALPHA
    assert {"entropy", "mean_token_accuracy", "num_tokens"} <= log.keys()
    if case == "one batch":
        with torch.no_grad():
            logits = twin(seen[0]["input_ids"], seen[0]["attention_mask"]).logits[:, :-1].flatten(0, 1)
        labels = seen[0]["labels"][:, 1:].flatten()
        logits, labels = logits[labels != -100], labels[labels != -100]
        assert log["entropy"] == pytest.approx(float(torch.distributions.Categorical(logits=logits).entropy().mean()))
        assert log["mean_token_accuracy"] == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
        assert log["num_tokens"] == int(seen[0]["attention_mask"].sum())
    assert log["maxsup/num_samples"] == sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in seen)
    if case != "experts":
        assert log["loss"] == pytest.approx(whole_loss(twin, seen, ALPHA).item(), abs=1e-4)


def test_evaluation_is_plain_cross_entropy_with_the_numbers_of_trl(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, num_parts=2)
    [batch] = list(trainer.get_eval_dataloader())
    logits = model().eval()(batch["input_ids"], batch["attention_mask"]).logits[:, :-1]
    expected = F.cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten())
    found = trainer.evaluate()
    assert found["eval_loss"] == pytest.approx(expected.item(), abs=1e-5)
    assert {"eval_entropy", "eval_mean_token_accuracy"} <= found.keys()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_liger_raises_no_false_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    applied = []
    monkeypatch.setattr("transformers.trainer.apply_liger_kernel", lambda *given: applied.append(given))
    loss = TrainerLoss(alpha=ALPHA)
    trainer = trl.SFTTrainer(
        model(), args=settings(tmp_path, use_liger_kernel=True), train_dataset=rows(), processing_class=tokenizer(),
        compute_loss_func=loss, callbacks=[loss.callback()],
    )  # fmt: skip
    trainer.train()
    assert trainer_of(tmp_path, use_liger_kernel=True).train().training_loss > 0
    assert (loss.num_training_calls, len(applied)) == (1, 2)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss_type": "dft"}, "loss_type must be 'nll'.+got 'dft'"),
        ({"label_smoothing_factor": 0.1}, r"label_smoothing_factor must be 0.+got 0\.1"),
    ],
    ids=["dft", "smoothing"],
)
def test_settings_of_another_loss_are_refused(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        trainer_of(tmp_path, **options)
