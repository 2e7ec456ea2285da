"""Labels of every integer dtype that torch has give the numbers of int64."""

import inspect

import pytest
import torch

from maxsup import metrics

NUM_CLASSES = 20
"""As many that the square of it does not fit into eight bits."""
DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32, torch.uint64]
IGNORED = {torch.int8: 127}

FUNCTIONS = [
    name
    for name in metrics.__all__
    if inspect.isfunction(function := getattr(metrics, name)) and "labels" in inspect.signature(function).parameters
]
CLASSES = [
    name
    for name in metrics.__all__
    if hasattr(getattr(metrics, name), "update")
    and "logits" in inspect.signature(getattr(metrics, name).update).parameters
]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(200) % NUM_CLASSES
    logits = torch.randn(200, NUM_CLASSES, generator=torch.Generator().manual_seed(0))
    logits[torch.arange(200), labels] += 1.0
    return logits, labels


def further(function: object) -> dict[str, object]:
    """Values of what the function cannot do without besides logits and labels."""
    known = {"coverage": 0.8, "metric": "aurc", "num_resamples": 20, "fitted_on": batch()}
    return {name: value for name, value in known.items() if name in inspect.signature(function).parameters}


def numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, torch.Tensor):
        return value.double().reshape(-1).tolist()
    if isinstance(value, list | tuple):
        return [number for part in value for number in numbers(part)]
    return [float(value)] if isinstance(value, int | float) else numbers(list(vars(value).values()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_labels_takes_every_integer(name: str, dtype: torch.dtype):
    function = getattr(metrics, name)
    logits, labels = batch()
    first = next(name for name in inspect.signature(function).parameters if name in ("logits", "features", "inputs"))
    given = {first: logits, **further(function)}
    found, expected = (numbers(function(labels=each, **given)) for each in (labels.to(dtype), labels))
    assert expected
    assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_take_every_integer(dtype: torch.dtype):
    logits, labels = batch()
    for name in CLASSES:
        narrow, wide = getattr(metrics, name)(), getattr(metrics, name)()
        narrow.update(logits, labels.to(dtype))
        wide.update(logits, labels)
        for attribute, value in vars(wide).items():
            found = vars(narrow)[attribute]
            pairs = zip(found[0], value[0], strict=True) if isinstance(value, list) else [(found, value)]
            assert all(torch.equal(*pair) for pair in pairs if isinstance(pair[0], torch.Tensor)), (name, attribute)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_confusion_matrix_takes_every_integer(dtype: torch.dtype):
    _, labels = batch()
    labels, predictions = labels.clone(), labels.roll(1)
    ignored = IGNORED.get(dtype, 255)
    labels[::5], predictions[::5] = ignored, 0
    expected = torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=torch.int64)
    for label, prediction in zip(labels.tolist(), predictions.tolist(), strict=True):
        if label != ignored:
            expected[label, prediction] += 1
    for first, second in ((dtype, dtype), (torch.int64, dtype), (dtype, torch.int64)):
        sums = metrics.ConfusionSums(NUM_CLASSES, ignore_index=ignored)
        sums.update(predictions.to(first), labels.to(second))
        assert torch.equal(sums.matrix, expected)


@pytest.mark.parametrize("bad", [-1, 3, 4, 200])
@pytest.mark.parametrize("what", ["predictions", "labels"])
def test_a_confusion_matrix_refuses_what_is_no_class(what: str, bad: int):
    pixels = {"predictions": torch.tensor([[0, 1], [2, 0]]), "labels": torch.tensor([[0, 1], [255, 0]])}
    pixels[what][1, 1] = bad
    sums = metrics.ConfusionSums(3)
    with pytest.raises(ValueError, match=rf"{what} must be classes from 0 to 2.*; got {bad}\b"):
        sums.update(**pixels)
    assert sums.matrix.sum() == 0


def test_what_is_predicted_where_nothing_counts_does_not_matter():
    sums = metrics.ConfusionSums(3)
    sums.update(torch.tensor([7, 1, -1]), torch.tensor([255, 1, 255]))
    assert sums.matrix.sum() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
@pytest.mark.parametrize("what", ["predictions", "labels"])
def test_a_confusion_matrix_refuses_what_is_no_integer(what: str, dtype: torch.dtype):
    pixels = {"predictions": torch.tensor([0, 1]), "labels": torch.tensor([0, 1])}
    pixels[what] = pixels[what].to(dtype)
    with pytest.raises(ValueError, match=f"{what} must be class indices; got {dtype}"):
        metrics.ConfusionSums(3).update(**pixels)
