"""A tiny translation run leaves what the protocol compares, and sums over sentences give scores of the corpus."""

import random

import numpy as np
import pytest

pytest.importorskip("sacrebleu")
pytest.importorskip("transformers")

from sacrebleu.metrics import BLEU

from tools.evidence import translation
from tools.evidence.plan import Arm, Pool
from tools.evidence.resample import num_units, resampled_number
from tools.evidence.results import read_result
from tools.evidence.translation import Settings, bleu_statistics, load_tokenizer, train_translation

ENGLISH = ["one", "two", "three", "four", "five", "six"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs"]
POOL = Pool.model_validate({"experiment": "D", "kind": "translation", "num_classes": 60, "lr": 0.01})
TINY = Settings(num_layers=1, num_channels=16, num_heads=2, epochs=2, batch_size=16)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A hundred pairs of counted words and, to hold out, twenty each."""
    root, rng = tmp_path_factory.mktemp("data"), random.Random(0)
    (root / "multi30k").mkdir()
    for split, size in (("train", 100), ("val", 20), ("test_2016_flickr", 20)):
        drawn = [[rng.randrange(6) for _ in range(rng.randint(2, 6))] for _ in range(size)]
        for language, words in (("en", ENGLISH), ("de", GERMAN)):
            lines = [" ".join(words[i] for i in sentence) + " ." for sentence in drawn]
            (root / "multi30k" / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def _run(root, folder, arm):
    folder.mkdir(exist_ok=True)
    train_translation("translation", POOL, arm, 100, root, folder, TINY)
    (row,), (record,) = read_result(folder)
    return row, record


def test_a_run_leaves_numbers_of_tokens_and_of_sentences(root, tmp_path):
    row, record = _run(root, tmp_path / "run", Arm(loss="maxsup", alpha=0.1))
    assert (row.pool, row.arm, row.seed, len(row.curve)) == ("translation", "maxsup alpha=0.1", 100, 2)
    assert {"bleu", "bleu_greedy", "chrf", "length_ratio", "nll_after", "ece_after", "train_accuracy"} <= set(
        row.numbers
    )
    arrays = record.arrays()
    assert num_units(arrays) == 20
    assert arrays["lengths"].sum() == len(arrays["is_right"])
    once = np.ones((1, 20), np.float32)
    assert resampled_number("accuracy", arrays, once)[0] == pytest.approx(row.numbers["accuracy"], abs=1e-5)
    assert not list((tmp_path / "run").glob("run"))


def test_a_seed_gives_all_losses_the_same_start_and_the_same_run_twice(root, tmp_path):
    first, _ = _run(root, tmp_path / "first", Arm(loss="ce"))
    again, _ = _run(root, tmp_path / "again", Arm(loss="ce"))
    smoothed, _ = _run(root, tmp_path / "smoothed", Arm(loss="ls", alpha=0.2))
    assert first.numbers == again.numbers
    assert first.numbers["val_nll"] != smoothed.numbers["val_nll"]


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(root, tmp_path, monkeypatch):
    arm, calls = Arm(loss="maxsup", alpha=0.1), []
    whole, _ = _run(root, tmp_path / "whole", arm)
    measured = translation._token_accuracy

    def stop_at_the_second_epoch(found):
        calls.append(found)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measured(found)

    monkeypatch.setattr(translation, "_token_accuracy", stop_at_the_second_epoch)
    with pytest.raises(KeyboardInterrupt):
        _run(root, tmp_path / "cut", arm)
    resumed, _ = _run(root, tmp_path / "cut", arm)
    assert len(calls) == 3  # the first epoch once, the second one twice
    assert (resumed.numbers, resumed.curve) == (whole.numbers, whole.curve)


def test_sums_over_sentences_give_the_bleu_of_the_corpus():
    outputs = ["eins zwei drei vier fünf .", "zwei zwei drei vier sechs eins .", "vier fünf ."]
    references = ["eins zwei drei vier fünf sechs .", "zwei zwei drei vier fünf eins .", "vier fünf eins ."]
    sums = {"bleu": bleu_statistics(outputs, references), "lengths": np.ones(3), "is_right": np.ones(3, bool)}
    counts = np.array([[1, 1, 1], [2, 0, 1]], np.float32)
    for number, chosen in zip(resampled_number("bleu", sums, counts), ([0, 1, 2], [0, 0, 2]), strict=True):
        expected = BLEU().corpus_score([outputs[i] for i in chosen], [[references[i] for i in chosen]]).score
        assert number == pytest.approx(expected, rel=1e-5)


def test_pieces_give_back_sentences_as_they_were(root):
    pieces = load_tokenizer(root / "multi30k", 60)
    sentence = "fünf zwei sechs ."
    assert pieces.decode(pieces(sentence).input_ids, skip_special_tokens=True) == sentence
