"""One translation run with ``Seq2SeqTrainer`` and the package's ``TrainerLoss``, and what is kept of it.

A token of the reference takes the place of an image: it is predicted from the tokens before it. Sentences are
translated by the model's own ``generate``.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForSeq2Seq,
    EvalPrediction,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from maxsup.integrations.huggingface import TrainerLoss
from maxsup.integrations.huggingface.labels import IGNORED
from tools.evidence.measures import Outputs, measure
from tools.evidence.plan import Arm, Pool
from tools.evidence.results import Row, write_result

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
TEST_SPLIT = "test_2016_flickr"
NUM_TRAIN_MEASURED = 2_000
BEAMS = 4
MAX_NEW_TOKENS = 80
GENERATED_AT_ONCE = 50


@dataclass(frozen=True)
class Settings:
    """Size of the network and length of its training; its layers normalise what goes into them, as in Pegasus."""

    num_layers: int = 3
    num_channels: int = 128
    num_heads: int = 4
    dropout: float = 0.1
    epochs: int = 8
    batch_size: int = 64
    warmup: float = 0.1


Pairs = list[dict[str, list[int]]]


class PairDataset(Dataset[dict[str, list[int]]]):
    """Pairs of sentences as pieces."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self.pairs[index]


def train_translation(
    pool_name: str, pool: Pool, arm: Arm, seed: int, root: Path, folder: Path, settings: Settings | None = None
) -> None:
    """Train one arm under one seed and write its result to ``folder``; an interrupted run goes on."""
    assert pool.lr is not None
    settings = settings or Settings()
    data, checkpoints = root / "multi30k", folder / "run"
    tokenizer = load_tokenizer(data, pool.num_classes)
    train, val, test = (_pairs(data, split, tokenizer) for split in ("train", "val", TEST_SPLIT))
    set_seed(seed)
    model = PegasusForConditionalGeneration(_config(tokenizer, settings))
    options = arm.loss_config(len(tokenizer))
    loss = TrainerLoss(options.pop("name"), **options)
    trainer = Seq2SeqTrainer(
        model,
        _arguments(checkpoints, pool.lr * arm.rate, seed, settings),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        train_dataset=PairDataset(train),
        eval_dataset=PairDataset(val),
        compute_loss_func=loss,
        compute_metrics=_token_accuracy,
        preprocess_logits_for_metrics=_predicted,
        callbacks=[loss.callback(monitor=False)],
    )
    is_begun = checkpoints.exists() and get_last_checkpoint(str(checkpoints)) is not None
    trainer.train(resume_from_checkpoint=is_begun)
    curve = [line["eval_accuracy"] for line in trainer.state.log_history if "eval_accuracy" in line]
    model.eval()
    numbers, record = measure(Outputs(*forced_outputs(trainer, val), *forced_outputs(trainer, test)))
    logits, labels = forced_outputs(trainer, train[:NUM_TRAIN_MEASURED])
    numbers["train_accuracy"] = float((logits.argmax(1) == labels).double().mean())
    references = _lines(data, TEST_SPLIT, "de")
    outputs = {beams: translate(model, tokenizer, test, beams) for beams in (1, BEAMS)}
    numbers |= corpus_numbers(outputs[BEAMS], references, outputs[1])
    (folder / "translations.txt").write_text("\n".join(outputs[BEAMS]) + "\n")
    lengths = np.array([len(pair["labels"]) for pair in test], np.uint8)
    record = replace(record, lengths=lengths, bleu=bleu_statistics(outputs[BEAMS], references))
    write_result(folder, [Row(pool_name, arm.name, seed, numbers, curve, head=None)], [record])
    shutil.rmtree(checkpoints)


def load_tokenizer(data: Path, num_pieces: int) -> PreTrainedTokenizerFast:
    """Pieces of both languages together, learnt once from the sentences that are trained on."""
    path = data / f"pieces-{num_pieces}.json"
    if not path.exists():
        pieces = Tokenizer(models.BPE(unk_token=UNKNOWN))
        pieces.normalizer = normalizers.NFC()
        pieces.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
        pieces.decoder = decoders.Metaspace()
        trainer = trainers.BpeTrainer(
            vocab_size=num_pieces, special_tokens=[PAD, END, UNKNOWN], show_progress=False, limit_alphabet=200
        )
        pieces.train_from_iterator(_lines(data, "train", "en") + _lines(data, "train", "de"), trainer)
        pieces.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, pieces.token_to_id(END))]
        )
        temporary = path.with_suffix(".tmp")
        pieces.save(str(temporary))
        temporary.rename(path)
    return PreTrainedTokenizerFast(tokenizer_file=str(path), pad_token=PAD, eos_token=END, unk_token=UNKNOWN)


@torch.no_grad()
def forced_outputs(trainer: Seq2SeqTrainer, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Logits ``(N, K)`` and labels of every token of the references, sentence after sentence."""
    found: list[tuple[Tensor, Tensor]] = []
    for start in range(0, len(pairs), trainer.args.eval_batch_size):
        batch = trainer.data_collator(pairs[start : start + trainer.args.eval_batch_size])
        labels = batch.pop("labels")
        counted = labels != IGNORED
        found.append((trainer.model(**batch).logits[counted], labels[counted]))
    logits, labels = zip(*found, strict=True)
    return torch.cat(logits), torch.cat(labels)


def translate(
    model: PegasusForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, pairs: Pairs, num_beams: int
) -> list[str]:
    """What the model says, sentence after sentence; sentences of similar length go together."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i]["input_ids"]))
    said = [""] * len(pairs)
    for start in range(0, len(order), GENERATED_AT_ONCE):
        chosen = order[start : start + GENERATED_AT_ONCE]
        batch = tokenizer.pad({"input_ids": [pairs[i]["input_ids"] for i in chosen]}, return_tensors="pt")
        tokens = model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            num_beams=num_beams,
            max_new_tokens=MAX_NEW_TOKENS,
        )
        for i, line in zip(chosen, tokenizer.batch_decode(tokens, skip_special_tokens=True), strict=True):
            said[i] = line
    return said


def corpus_numbers(outputs: Sequence[str], references: Sequence[str], greedy: Sequence[str]) -> dict[str, float]:
    """BLEU and chrF with the defaults of sacrebleu, of beams and of the greedy output, and the ratio of lengths."""
    bleu = BLEU().corpus_score(outputs, [references])
    return {
        "bleu": bleu.score,
        "bleu_greedy": BLEU().corpus_score(greedy, [references]).score,
        "chrf": CHRF().corpus_score(outputs, [references]).score,
        "length_ratio": bleu.sys_len / bleu.ref_len,
    }


def bleu_statistics(outputs: Sequence[str], references: Sequence[str]) -> NDArray[np.uint8]:
    """What corpus BLEU is made of, ``(N, 10)``: lengths of output and reference, right n-grams, all n-grams."""
    bleu = BLEU(effective_order=True)
    scores = [bleu.sentence_score(said, [right]) for said, right in zip(outputs, references, strict=True)]
    return np.array([[each.sys_len, each.ref_len, *each.counts, *each.totals] for each in scores], np.uint8)


def _lines(data: Path, split: str, language: str) -> list[str]:
    return (data / f"{split}.{language}").read_text(encoding="utf-8").splitlines()


def _pairs(data: Path, split: str, tokenizer: PreTrainedTokenizerFast) -> Pairs:
    sources, targets = (tokenizer(_lines(data, split, language)).input_ids for language in ("en", "de"))
    return [{"input_ids": source, "labels": target} for source, target in zip(sources, targets, strict=True)]


def _config(tokenizer: PreTrainedTokenizerFast, settings: Settings) -> PegasusConfig:
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", settings.num_layers),
            ("attention_heads", settings.num_heads),
            ("ffn_dim", 4 * settings.num_channels),
        )
    }
    return PegasusConfig(
        vocab_size=len(tokenizer),
        d_model=settings.num_channels,
        dropout=settings.dropout,
        max_position_embeddings=256,
        scale_embedding=True,
        init_std=settings.num_channels**-0.5,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        **sizes,
    )


def _arguments(folder: Path, lr: float, seed: int, settings: Settings) -> Seq2SeqTrainingArguments:
    return Seq2SeqTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        train_sampling_strategy="group_by_length",
        learning_rate=lr,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup,
        seed=seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_strategy="epoch",
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=False,
    )


def _predicted(logits: Any, _: Tensor) -> Tensor:
    first: Tensor = logits[0] if isinstance(logits, tuple) else logits
    return first.argmax(-1)


def _token_accuracy(found: EvalPrediction) -> dict[str, float]:
    counted = found.label_ids != IGNORED
    return {"accuracy": float((found.predictions == found.label_ids)[counted].mean())}
