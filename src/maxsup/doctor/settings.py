"""What the settings of a run say about smoothing, whoever's trainer they are for. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from maxsup.core.finding import Finding
from maxsup.doctor.common_findings import double_smoothing, other_convention, smoothed_evaluation

_SMOOTHING = ("label_smoothing", "smoothing", "label_smoothing_factor", "label_smooth", "label_smooth_val")
_LOSS_NAMES = ("loss", "criterion", "loss_fn", "loss_name", "_target_", "class_path")
# What these name is told by where they stand: a run may be called after the loss it is compared with.
_NAMES = ("name", "_name", "type")
_ACCUMULATION = ("gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum_steps", "accumulation_steps")
# Settings that only those have whose samples hold unequal numbers of targets.
_UNEQUAL = ("ignore_index", "pad_token_id", "max_length", "max_seq_length", "max_source_positions", "block_size")
_MIXING = ("mix", "cutmix", "augment", "collate", "targets")

_KINDS: dict[str, tuple[set[str], ...]] = {
    "a recipe of maxsup": ({"loss.name", "model.name"}, {"loss.name", "epochs"}),
    "TrainingArguments of transformers": ({"label_smoothing_factor"}, {"per_device_train_batch_size"}),
    "settings of fairseq": ({"criterion", "arch"}, {"criterion._name"}),
    "flags of torchvision's references": ({"label_smoothing", "mixup_alpha"}, {"label_smoothing", "ra_magnitude"}),
    "flags of timm": ({"smoothing", "mixup"}, {"smoothing", "model"}, {"smoothing", "cutmix"}),
}
_FAIRSEQ = "label_smoothed_cross_entropy"


def config_kind(values: Mapping[str, Any]) -> str:
    """Whose settings these are, in words.

    Example:
        >>> config_kind({"smoothing": 0.1, "mixup": 0.8, "model": "resnet50"})
        'flags of timm'
    """
    flat = _by_path(values)
    for kind, marks in _KINDS.items():
        if any(mark <= flat.keys() for mark in marks):
            return kind
    return "settings"


def examine_config(values: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with the settings of a run, from their names alone.

    Args:
        values: A recipe of this package, timm's ``args.yaml``, ``TrainingArguments`` as JSON, flags of torchvision's
            references, settings of fairseq, or anything nested whose keys speak for themselves.

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
        *_examine_sigmoid(flat),
        *_examine_evaluation(flat, kind),
        *_examine_convention(flat),
        *_examine_accumulation(flat, kind),
        *_examine_schedule(flat, kind),
    ]


def _examine_smoothing(flat: dict[str, Any]) -> Iterator[Finding]:
    knobs = {path: value for path, value in _smoothing(flat).items() if not _is_evaluation(path)}
    strength = _maxsup_strength(flat)
    if strength is not None and strength > 0:
        for path, value in knobs.items():
            fix = f"Set {path} to 0: MaxSup takes the place of label smoothing."
            yield double_smoothing(f"MaxSup (alpha={strength:g})", f"label smoothing ({path}={value:g})", fix)
        return
    mixing = {path: value for path, value in knobs.items() if _has_part(path, _MIXING)}
    others = {path: value for path, value in knobs.items() if path not in mixing}
    for path, value in mixing.items():
        for other, strength in others.items():
            fix = f"Set {path} to 0 and keep {other}, or the other way round."
            yield double_smoothing(f"the loss ({other}={strength:g})", f"the mixing ({path}={value:g})", fix)


def _examine_sigmoid(flat: dict[str, Any]) -> Iterator[Finding]:
    """A loss of timm's that its flags choose and that has no place for MaxSup."""
    if flat.get("bce_loss") is True and _maxsup_strength(flat) is not None:
        yield Finding(
            "sigmoid_loss",
            "error",
            "bce_loss=True trains a sigmoid for every class, and MaxSup is for a softmax over all of them: the two do "
            "not go together.",
            "Set bce_loss to false and keep MaxSup, or keep bce_loss and leave MaxSup out.",
        )


def _examine_evaluation(flat: dict[str, Any], kind: str) -> Iterator[Finding]:
    knobs = _smoothing(flat)
    for path, value in knobs.items():
        if _is_evaluation(path):
            yield smoothed_evaluation(f"The evaluation smooths ({path}={value:g})", f"Set {path} to 0.")
    [name, strength] = next(iter(knobs.items()), ("", 0.0))
    if strength == 0:
        return
    if kind == "flags of torchvision's references":
        what = f"torchvision's references evaluate with the training criterion ({name}={strength:g})"
        yield smoothed_evaluation(what, "Evaluate with nn.CrossEntropyLoss(), or use MaxSupLoss and call eval() on it.")
    is_evaluated = str(flat.get("eval_strategy", flat.get("evaluation_strategy", "no"))) != "no"
    if kind == "TrainingArguments of transformers" and is_evaluated:
        what = f"Trainer smooths the evaluation loss too ({name}={strength:g})"
        fix = f"Set {name} to 0 and pass compute_loss_func=TrainerLoss() of maxsup.integrations.huggingface."
        yield smoothed_evaluation(what, fix)


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
    if kind == "TrainingArguments of transformers":
        strength = _number(flat.get("label_smoothing_factor")) or 0.0
        if number > 1 and strength > 0:
            yield Finding(
                "accumulation_denominator",
                "warning",
                f"{path}={number:g} with label_smoothing_factor={strength:g}: releases of transformers whose label "
                "smoother does not know num_items_in_batch weigh the tokens of short micro-batches more.",
                "Set label_smoothing_factor to 0 and pass compute_loss_func=TrainerLoss() of "
                "maxsup.integrations.huggingface, which divides by the number of tokens in the whole step.",
            )
        if flat.get("average_tokens_across_devices") is False:
            yield Finding(
                "accumulation_denominator",
                "note",
                "average_tokens_across_devices=False: with several processes each divides by its own number of tokens.",
                "Set it to True where samples differ in length.",
            )
    elif number > 1 and evidence is not None and kind == "settings":
        yield Finding(
            "accumulation_denominator",
            "warning",
            f"{path}={number:g} with samples of unequal length ({evidence}={flat[evidence]}): the mean of each "
            "micro-batch has its own denominator, so targets in short ones weigh more.",
            "Call the loss with num_items=, the number of targets in the whole step, and do not divide by the "
            "number of micro-batches; check batches with examine_accumulation.",
        )


def _examine_schedule(flat: dict[str, Any], kind: str) -> Iterator[Finding]:
    start, end = _number(flat.get("loss.alpha.start")), _number(flat.get("loss.alpha.end"))
    if kind != "a recipe of maxsup" or start is None or end is None or start == end:
        return
    if flat.get("epochs") == 1 and not flat.get("alpha_per_step"):
        yield Finding(
            "schedule_not_advanced",
            "warning",
            f"alpha is to go from {start:g} to {end:g}, but epochs=1 and it moves from epoch to epoch: it stays at "
            f"{start:g}.",
            "Set alpha_per_step to true.",
        )


def _maxsup_strength(flat: dict[str, Any]) -> float | None:
    """The alpha of MaxSup, if that is the loss; the larger end of a schedule."""
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
    """Settings that smooth labels, with their strengths; only those above 0."""
    found = {path: number for path, value in flat.items() if _last(path) in _SMOOTHING and (number := _number(value))}
    if str(flat.get("loss.name")) == "ls" and (number := _number(flat.get("loss.alpha", 0.1))):
        found["loss.alpha"] = number
    return {path: number for path, number in found.items() if number > 0}


def _by_path(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted paths of nested settings, lists included; flags are read with and without dashes."""
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
