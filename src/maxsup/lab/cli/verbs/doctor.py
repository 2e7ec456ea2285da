"""``maxsup doctor``: what is wrong with settings, a criterion or a batch, before time is spent on training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from maxsup.lab.cli.options import JsonOption, refuse_strangers
from maxsup.lab.cli.printing import LEVEL_COLORS, print_indented, print_json
from maxsup.lab.cli.shorthands import argument, flag, option

if TYPE_CHECKING:
    from torch import Tensor

    from maxsup.core.finding import Finding

_CONFIGS = (".yaml", ".yml", ".json")
_SCRIPTS = (".py",)
_ARRAYS = (".npy", ".npz", ".safetensors", ".csv")
_DEVICES = ("cpu", "cuda", "mps", "xpu")
_CRITERIA = {"ce": "CrossEntropyLoss", "ls": "LabelSmoothingLoss", "maxsup": "MaxSupLoss"}
_FILES = "A script (.py), settings (.yaml, .json), or arrays (.npz, .npy, .safetensors, .csv) of one batch."


class _Examined(NamedTuple):
    """One thing that was examined; ``exit_code`` is that of an error in it."""

    source: str
    kind: str
    findings: list[Finding]
    exit_code: int


def doctor(
    files: Annotated[list[str] | None, argument("FILE", _FILES)] = None,
    labels: Annotated[str | None, option("FILE", "Targets; else `targets` or `labels` in the logits' file.")] = None,
    criterion: Annotated[str | None, option("TEXT", 'For instance "CrossEntropyLoss(label_smoothing=0.1)".')] = None,
    evaluation_criterion: Annotated[str | None, option("TEXT", "The loss used in evaluation.")] = None,
    mixup: Annotated[str | None, option("TEXT", 'For instance "Mixup(label_smoothing=0.1)".')] = None,
    loss: Annotated[str | None, option("NAME", "ce, ls or maxsup, instead of --criterion.")] = None,
    alpha: Annotated[float | None, option(None, "Strength of --loss.")] = None,
    ignore_index: Annotated[
        int | None, option(None, "Label to ignore (default: that of the criterion, or -100).")
    ] = None,
    num_classes: Annotated[int | None, option(None, "How many there should be.")] = None,
    is_accumulated: Annotated[
        bool, flag("--accumulated", "The batches are micro-batches of one optimiser step.")
    ] = False,
    device: Annotated[str | None, option("|".join(_DEVICES), "Say in which form a loss runs there, and why.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find double smoothing, a softmax too many, wrong labels.

    One sentence and a fix for each of these and other traps. Exits with 0 if nothing worse than a warning was found, 2
    for an error in a script, in settings or in a criterion, 4 for one in a batch.
    """
    words = _criterion_words(criterion, loss, alpha)
    paths = files or []
    if not paths and words is None and device is None:
        raise ValueError(
            "doctor needs a file, --criterion, --loss or --device. Write for instance maxsup doctor args.yaml."
        )
    batches = [path for path in paths if _is_arrays(path)]
    for needed, has_needed, options in (
        (
            "--criterion or --loss",
            words is not None,
            {"--evaluation-criterion": evaluation_criterion, "--mixup": mixup},
        ),
        ("one file of logits", len(batches) == 1, {"--labels": labels}),
        ("a file of arrays", bool(batches), {"--ignore-index": ignore_index, "--num-classes": num_classes}),
        ("two files of arrays or more", len(batches) > 1, {"--accumulated": is_accumulated or None}),
    ):
        refuse_strangers(options, needed, has_needed=has_needed)
    examined = [_settings(path) for path in paths if path not in batches]
    if words is not None:
        from maxsup.doctor.criterion import examine_criterion

        findings = examine_criterion(words, evaluation_criterion=evaluation_criterion, mixup=mixup)
        examined.append(_Examined(words, "criterion", findings, 2))
    if batches:
        examined += _batches(batches, labels, words, ignore_index, num_classes, is_accumulated=is_accumulated)
    if device is not None:
        from maxsup.core.checks import check_choice
        from maxsup.doctor.common_findings import computed_as
        from maxsup.losses.computing.forms import default_form

        check_choice("--device", device, _DEVICES)
        examined.append(_Examined(device, "device", [computed_as(device, *default_form(device))], 2))
    if as_json:
        print_json({"examined": [_as_json(one) for one in examined]})
    else:
        _print(examined)
    codes = [one.exit_code for one in examined if any(finding.level == "error" for finding in one.findings)]
    raise typer.Exit(max(codes, default=0))


def _criterion_words(criterion: str | None, loss: str | None, alpha: float | None) -> str | None:
    """The criterion written out, from whichever option gave it."""
    from maxsup.core.checks import check_choice, check_number

    if criterion is not None and loss is not None:
        raise ValueError(f"criterion must be given once; got --criterion {criterion!r} and --loss {loss!r}. Drop one.")
    if alpha is not None and loss is None:
        raise ValueError(f"--alpha must come with --loss; got {alpha!r} alone. Write the number into --criterion.")
    if loss is None:
        return criterion
    if alpha is not None:
        check_number("--alpha", alpha)
    check_choice("--loss", loss, tuple(_CRITERIA))
    refuse_strangers({"--alpha": alpha}, "--loss ls or maxsup", has_needed=loss != "ce", found="with ce")
    return f"{_CRITERIA[loss]}({'' if alpha is None else f'alpha={alpha!r}'})"


def _is_arrays(path: str) -> bool:
    from maxsup.core.errors import DataError

    head = path.rpartition(":")[0]
    suffix = Path(head if head.lower().endswith((".npz", ".safetensors")) else path).suffix.lower()
    if suffix not in _CONFIGS + _SCRIPTS + _ARRAYS:
        raise DataError(
            f"file must be of kind {', '.join(_SCRIPTS + _CONFIGS + _ARRAYS)}; got {path!r}. "
            "Save settings as YAML and arrays as .npz.",
            code="bad-array-file",
        )
    return suffix in _ARRAYS


def _settings(name: str) -> _Examined:
    from maxsup.doctor.script import examine_script
    from maxsup.doctor.settings import config_kind, examine_config
    from maxsup.lab.core.recipes import read_text, read_yaml

    path = Path(name)
    if not path.is_file():
        raise ValueError(f"FILE must be a file that is there; got {name!r}. Check the path.")
    if path.suffix.lower() in _SCRIPTS:
        return _Examined(name, "a script, read but not run", examine_script(read_text(path)), 2)
    values = read_yaml(path) if path.suffix.lower() != ".json" else _json_object(path, read_text(path))
    return _Examined(name, config_kind(values), examine_config(values), 2)


def _json_object(path: Path, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path} must be valid JSON; got an error: {error}. Write it again.") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold an object of settings; got {type(values).__name__}. See TrainingArguments.")
    return values


def _batches(
    paths: list[str],
    labels: str | None,
    criterion: str | None,
    ignore_index: int | None,
    num_classes: int | None,
    *,
    is_accumulated: bool,
) -> list[_Examined]:
    from maxsup.doctor.batch import examine_accumulation, examine_batch
    from maxsup.doctor.criterion import ignored_label, smoothers

    arrays = [_arrays(path, labels) for path in paths]
    examined = []
    for path, (logits, targets) in zip(paths, arrays, strict=True):
        found = examine_batch(logits, targets, num_classes=num_classes, ignore_index=ignore_index, criterion=criterion)
        examined.append(_Examined(path, f"batch, logits {tuple(logits.shape)}", found, 4))
    if is_accumulated:
        if ignore_index is None:
            ignore_index = ignored_label([] if criterion is None else smoothers(criterion))
        found = examine_accumulation([targets for _, targets in arrays], ignore_index=ignore_index)
        examined.append(_Examined(", ".join(paths), "one optimiser step", found, 4))
    return examined


def _arrays(path: str, labels: str | None) -> tuple[Tensor, Tensor]:
    """Logits and targets as they are; the doctor reports what is wrong with them."""
    from maxsup.core.errors import DataError
    from maxsup.diagnosis.array_files import file_contents

    logits, readers = file_contents(path, "logits")
    name = next((name for name in ("targets", "labels") if name in readers), None)
    if labels is None and name is None:
        raise DataError(
            f"targets must be given with the logits; got {path!r} alone, which holds none. Add --labels y.npy.",
            code="labels-missing",
        )
    targets = file_contents(labels, "labels")[0] if labels is not None else readers[str(name)]()
    return _tensor(logits, "logits"), _tensor(targets, "targets")


def _tensor(values: Any, what: str) -> Tensor:
    import numpy as np
    import torch

    from maxsup.core.errors import DataError

    if isinstance(values, torch.Tensor):
        return values
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{what} must be real numbers; got {values.dtype}. Save them as float32 or int64.", code="bad-array-file"
        )
    native = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    # A column, as text files and data frames have it, and whole numbers that a text file cannot mark as whole.
    if what == "targets" and native.ndim == 2 and native.shape[1] == 1:
        native = native[:, 0]
        if native.dtype.kind == "f" and bool((native == np.floor(native)).all()):
            native = native.astype(np.int64)
    return torch.from_numpy(native)


def _as_json(one: _Examined) -> dict[str, Any]:
    findings = [
        {"name": found.topic, "severity": found.level, "sentence": found.sentence, "fix": found.advice}
        for found in one.findings
    ]
    return {"source": one.source, "kind": one.kind, "findings": findings}


def _print(examined: list[_Examined]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for number, one in enumerate(examined):
        console.print(Text.assemble("\n" * bool(number), (one.source, "bold"), f" ({one.kind})"), soft_wrap=True)
        if not one.findings:
            print_indented(console, "no problem found", 2, style="green")
        for finding in one.findings:
            level = (f"{finding.level:<8}", f"bold {LEVEL_COLORS[finding.level]}")
            print_indented(console, Text.assemble(level, (finding.topic, "bold")), 2)
            print_indented(console, finding.sentence, 10)
            print_indented(console, f"Fix: {finding.advice}", 10, style="dim")
