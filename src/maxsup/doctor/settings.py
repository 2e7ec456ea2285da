"""Check the config of a run of any trainer for mistakes with smoothing. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from maxsup.core.finding import Finding
from maxsup.doctor.common_findings import double_smoothing, other_convention, smoothed_evaluation

_SMOOTHING = ("label_smoothing", "smoothing", "label_smoothing_factor", "label_smooth", "label_smooth_val")
_LOSS_NAMES = ("loss", "criterion", "loss_fn", "loss_name", "_target_", "class_path")
# These name a loss only inside a loss section: a run may be named after the loss it is compared with.
_NAMES = ("name", "_name", "type")
_ACCUMULATION = ("gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum_steps", "accumulation_steps")
# Settings that only appear when samples hold unequal numbers of targets.
_UNEQUAL = ("ignore_index", "pad_token_id", "max_length", "max_seq_length", "max_source_positions", "block_size")
_MIXING = ("mix", "cutmix", "augment", "collate", "targets")

_TRAINER_LOSS = (
    "pass compute_loss_func=loss and callbacks=[loss.callback()] with loss = TrainerLoss() of "
    "maxsup.integrations.huggingface"
)
_TRANSFORMERS, _TORCHVISION = "TrainingArguments of transformers", "flags of torchvision's references"
_KINDS: dict[str, tuple[set[str], ...]] = {
    "a recipe of maxsup": ({"loss.name", "model.name"}, {"loss.name", "epochs"}),
    _TRANSFORMERS: ({"label_smoothing_factor"}, {"per_device_train_batch_size"}),
    "settings of fairseq": ({"criterion", "arch"}, {"criterion._name"}),
    _TORCHVISION: ({"label_smoothing", "mixup_alpha"}, {"label_smoothing", "ra_magnitude"}),
    "flags of timm": ({"smoothing", "mixup"}, {"smoothing", "model"}, {"smoothing", "cutmix"}),
}
_FAIRSEQ = "label_smoothed_cross_entropy"


def config_kind(values: Mapping[str, Any]) -> str:
    """Return the tool whose settings these are, as a phrase.

    Example:
        >>> config_kind({"smoothing": 0.1, "mixup": 0.8, "model": "resnet50"})
        'flags of timm'
    """
    found = _by_path(values).keys()
    return next((kind for kind, marks in _KINDS.items() if any(mark <= found for mark in marks)), "settings")


def examine_config(values: Mapping[str, Any]) -> list[Finding]:
    """Check the settings of a run by their names, and return the findings.

    Args:
        values: A recipe of this package, timm's ``args.yaml``, ``TrainingArguments`` as JSON, flags of torchvision's
            references, settings of fairseq, or any nested mapping with telling keys.

    Example:
        >>> [finding] = examine_config({"loss": "maxsup", "alpha": 0.1, "smoothing": 0.1, "mixup": 0.8})
        >>> finding.sentence
        'Targets are smoothed twice: by MaxSup (alpha=0.1) and by label smoothing (smoothing=0.1).'
        >>> examine_config({"loss": "maxsup", "alpha": 0.1, "smoothing": 0.0, "mixup": 0.8})
        []
    """
    flat, kind = _by_path(values), config_kind(values)
    return [
        *_examine_smoothing(flat),
        *_examine_evaluation(flat, kind),
        *_examine_convention(flat),
        *_examine_accumulation(flat, kind),
        *_examine_schedule(flat, kind),
    ]


def _examine_smoothing(flat: dict[str, Any]) -> Iterator[Finding]:
    knobs = {path: value for path, value in _smoothing(flat).items() if not _is_evaluation(path)}
    alpha = _maxsup_strength(flat)
    if alpha is not None and alpha > 0:
        for path, value in knobs.items():
            fix = f"Set {path} to 0: MaxSup replaces label smoothing."
            yield double_smoothing(f"MaxSup (alpha={alpha:g})", f"label smoothing ({path}={value:g})", fix)
    else:
        mixing = {path: value for path, value in knobs.items() if _has_part(path, _MIXING)}
        others = {path: value for path, value in knobs.items() if path not in mixing}
        for (path, value), (other, strength) in product(mixing.items(), others.items()):
            fix = f"Set {path} to 0 and keep {other}, or the reverse."
            yield double_smoothing(f"the loss ({other}={strength:g})", f"the mixing ({path}={value:g})", fix)
    if alpha is not None and flat.get("bce_loss") is True:
        sentence = "bce_loss=True trains a sigmoid for every class, and MaxSup needs a softmax over all of them."
        fix = "Set bce_loss to false and keep MaxSup, or keep bce_loss and leave MaxSup out."
        yield Finding("sigmoid_loss", "error", sentence, fix)


def _examine_evaluation(flat: dict[str, Any], kind: str) -> Iterator[Finding]:
    knobs = _smoothing(flat)
    for path, value in knobs.items():
        if _is_evaluation(path):
            yield smoothed_evaluation(f"The evaluation smooths ({path}={value:g})", f"Set {path} to 0.")
    [name, strength] = next(iter(knobs.items()), ("", 0.0))
    if strength == 0:
        return
    if kind == _TORCHVISION:
        what = f"torchvision's references evaluate with the training criterion ({name}={strength:g})"
        yield smoothed_evaluation(what, "Evaluate with nn.CrossEntropyLoss(), or use MaxSupLoss and call eval() on it.")
    is_evaluated = str(flat.get("eval_strategy", flat.get("evaluation_strategy", "no"))) != "no"
    if kind == _TRANSFORMERS and is_evaluated:
        what = f"Trainer smooths the evaluation loss too ({name}={strength:g})"
        yield smoothed_evaluation(what, f"Set {name} to 0 and {_TRAINER_LOSS}.")


def _examine_convention(flat: dict[str, Any]) -> Iterator[Finding]:
    strength = next(iter(_smoothing(flat).values()), 0.0)
    if _FAIRSEQ in (flat.get("criterion"), flat.get("criterion._name")) and strength > 0:
        yield other_convention(f"fairseq's {_FAIRSEQ}", strength)
    if flat.get("loss.convention") == "k-1":
        yield other_convention("The loss", _number(flat.get("loss.alpha", 0.1)) or 0.0)


def _examine_accumulation(flat: dict[str, Any], kind: str) -> Iterator[Finding]:
    steps = {
        path: number for path, value in flat.items() if _last(path) in _ACCUMULATION and (number := _number(value))
    }
    path, number = max(steps.items(), key=lambda item: item[1], default=("", 0.0))
    evidence = next((key for key, value in flat.items() if _last(key) in _UNEQUAL and value is not None), None)
    topic, strength = "accumulation_denominator", _number(flat.get("label_smoothing_factor")) or 0.0
    if kind == _TRANSFORMERS and number > 1 and strength > 0:
        sentence = f"{path}={number:g} with label_smoothing_factor={strength:g}: label smoothers of transformers that "
        sentence += "ignore num_items_in_batch weigh the tokens of short micro-batches more."
        fix = f"Set label_smoothing_factor to 0 and {_TRAINER_LOSS}; it divides by all tokens of the step."
        yield Finding(topic, "warning", sentence, fix)
    if kind == _TRANSFORMERS and flat.get("average_tokens_across_devices") is False:
        sentence = "average_tokens_across_devices=False: each of several processes divides by its own number of tokens."
        yield Finding(topic, "note", sentence, "Set it to True if samples differ in length.")
    if kind == "settings" and number > 1 and evidence is not None:
        sentence = f"{path}={number:g} with samples of unequal length ({evidence}={flat[evidence]}): each micro-batch "
        sentence += "has its own denominator, so targets in short ones weigh more."
        fix = "Call the loss with num_items=, the number of targets in the whole step, and do not divide by the number "
        fix += "of micro-batches; check batches with examine_accumulation."
        yield Finding(topic, "warning", sentence, fix)


def _examine_schedule(flat: dict[str, Any], kind: str) -> Iterator[Finding]:
    start, end = _number(flat.get("loss.alpha.start")), _number(flat.get("loss.alpha.end"))
    if kind != "a recipe of maxsup" or start is None or end is None or start == end:
        return
    if flat.get("epochs") == 1 and not flat.get("alpha_per_step"):
        sentence = f"alpha stays at {start:g} and never reaches {end:g}: it moves from epoch to epoch, and epochs=1."
        yield Finding("schedule_not_advanced", "warning", sentence, "Set alpha_per_step to true.")


def _maxsup_strength(flat: dict[str, Any]) -> float | None:
    """Return the alpha if the loss is MaxSup (of a schedule the larger end), else None."""
    for path, value in flat.items():
        parent, _, last = path.rpartition(".")
        is_loss = last in _LOSS_NAMES or (last in _NAMES and ("loss" in parent or "criterion" in parent))
        if is_loss and isinstance(value, str) and "maxsup" in value.lower() and not _is_evaluation(path):
            keys = ("alpha", "alpha.start", "alpha.end", "init_args.alpha", "params.alpha")
            inside = [f"{parent}.{key}" for key in keys]
            given = [_number(flat.get(key)) for key in [*inside, "alpha", "alpha_end"]]
            return max((number for number in given if number is not None), default=0.1)
    return None


def _smoothing(flat: dict[str, Any]) -> dict[str, float]:
    """Return the settings that smooth labels with a strength above 0."""
    found = {path: number for path, value in flat.items() if _last(path) in _SMOOTHING and (number := _number(value))}
    if str(flat.get("loss.name")) == "ls" and (number := _number(flat.get("loss.alpha", 0.1))):
        found["loss.alpha"] = number
    return {path: number for path, number in found.items() if number > 0}


def _by_path(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested settings, lists included, to dotted paths. Leading dashes of flags are dropped."""
    flat: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", values)]  # no recursion: files may be nested deeper than Python's stack
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping | list):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            inside = [(f"{path}.{str(key).strip('-').replace('-', '_')}".lstrip("."), item) for key, item in items]
            waiting += reversed(inside)
        else:
            flat[path] = value
    return flat


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _has_part(path: str, parts: tuple[str, ...]) -> bool:
    return any(part.startswith(parts) for part in path.lower().split("."))


def _is_evaluation(path: str) -> bool:
    return _has_part(path, ("eval", "val", "test"))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
