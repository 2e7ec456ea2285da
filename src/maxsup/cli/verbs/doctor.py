"""``maxsup doctor``: what is wrong with settings, a criterion or a batch, before time is spent on training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from maxsup.cli.options import JsonOption, print_json

if TYPE_CHECKING:
    from torch import Tensor

    from maxsup.core.finding import Finding

_CONFIGS = (".yaml", ".yml", ".json")
_SCRIPTS = (".py",)
_ARRAYS = (".npy", ".npz", ".safetensors", ".csv")
_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}
_DEVICES = ("cpu", "cuda", "mps", "xpu")


class _Examined(NamedTuple):
    """One thing that was looked at; ``exit_code`` is that of an error in it."""

    source: str
    kind: str
    findings: list[Finding]
    exit_code: int


def doctor(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="A script (.py), settings (.yaml, .json), or arrays (.npz, .npy, .safetensors, .csv) of one batch.",
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", help="Targets; else `targets` or `labels` in the logits' file.")
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(metavar="TEXT", help='For instance "CrossEntropyLoss(label_smoothing=0.1)".')
    ] = None,
    evaluation_criterion: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The loss used in evaluation.")
    ] = None,
    mixup: Annotated[
        str | None, typer.Option(metavar="TEXT", help='For instance "Mixup(label_smoothing=0.1)".')
    ] = None,
    loss: Annotated[str | None, typer.Option(metavar="NAME", help="In place of --criterion: ce, ls or maxsup.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Strength of --loss.")] = None,
    ignore_index: Annotated[
        int | None, typer.Option(help="Label that counts nothing; else the criterion's, else -100.")
    ] = None,
    num_classes: Annotated[int | None, typer.Option(help="How many there should be.")] = None,
    is_accumulated: Annotated[
        bool, typer.Option("--accumulated", help="The batches are micro-batches of one optimiser step.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(metavar="|".join(_DEVICES), help="Say in which form a loss runs there, and why.")
    ] = None,
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
            "input must be a file, --criterion, --loss or --device; got none. "
            "Write for instance maxsup doctor args.yaml."
        )
    batches = [path for path in paths if _is_arrays(path)]
    around = {"--evaluation-criterion": evaluation_criterion, "--mixup": mixup}
    _refuse_strangers(around, "--criterion or --loss", words is not None)
    _refuse_strangers({"--labels": labels}, "one file of logits", len(batches) == 1)
    _refuse_strangers({"--ignore-index": ignore_index, "--num-classes": num_classes}, "a file of arrays", bool(batches))
    _refuse_strangers({"--accumulated": is_accumulated or None}, "two files of arrays or more", len(batches) > 1)
    examined = [_settings(path) for path in paths if path not in batches]
    if words is not None:
        examined.append(_criterion(words, evaluation_criterion, mixup))
    examined += _batches(batches, labels, words, ignore_index, num_classes, is_accumulated=is_accumulated)
    if device is not None:
        examined.append(_device(device))
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
    check_choice("--loss", loss, ("ce", "ls", "maxsup"))
    if loss == "ce":
        if alpha is not None:
            raise ValueError(f"--alpha must come with --loss ls or maxsup; got {alpha!r} with ce. Leave it out.")
        return "CrossEntropyLoss()"
    name = {"ls": "LabelSmoothingLoss", "maxsup": "MaxSupLoss"}[loss]
    return f"{name}()" if alpha is None else f"{name}(alpha={alpha!r})"


def _refuse_strangers(options: dict[str, Any], needed: str, has_needed: bool) -> None:
    """No option is silently ignored."""
    for option, value in options.items():
        if value is not None and not has_needed:
            raise ValueError(f"{option} must come with {needed}; got {value!r} without. Leave it out, or add that.")


def _is_arrays(path: str) -> bool:
    from maxsup.core.errors import DataError

    head = path.rpartition(":")[0]
    suffix = Path(head if head.lower().endswith((".npz", ".safetensors")) else path).suffix.lower()
    if suffix in _CONFIGS + _SCRIPTS:
        return False
    if suffix not in _ARRAYS:
        raise DataError(
            f"file must be of kind {', '.join(_SCRIPTS + _CONFIGS + _ARRAYS)}; got {path!r}. "
            "Save settings as YAML and arrays as .npz."
        )
    return True


def _settings(path: str) -> _Examined:
    from maxsup.doctor.script import examine_script
    from maxsup.doctor.settings import config_kind, examine_config

    if Path(path).suffix.lower() in _SCRIPTS:
        return _Examined(path, "a script, read but not run", examine_script(_text(Path(path))), 2)
    values = _mapping(Path(path))
    return _Examined(path, config_kind(values), examine_config(values), 2)


def _mapping(path: Path) -> dict[str, Any]:
    from maxsup.core.recipes import read_yaml

    text = _text(path)
    if path.suffix.lower() != ".json":
        return read_yaml(path)
    try:
        values = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path} must be valid JSON; got an error: {error}. Write it again.") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold an object of settings; got {type(values).__name__}. See TrainingArguments.")
    return values


def _text(path: Path) -> str:
    from maxsup.core.recipes import MAX_BYTES

    if not path.is_file():
        raise ValueError(f"FILE must be a file that is there; got {str(path)!r}. Check the path.")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path} must hold at most {MAX_BYTES} bytes; got {size}. A script or settings are smaller.")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text; got {error.reason}. Save it as such.") from None


def _criterion(words: str, evaluation_criterion: str | None, mixup: str | None) -> _Examined:
    from maxsup.doctor.criterion import examine_criterion

    found = examine_criterion(words, evaluation_criterion=evaluation_criterion, mixup=mixup)
    return _Examined(words, "criterion", found, 2)


def _device(kind: str) -> _Examined:
    from maxsup.core.checks import check_choice
    from maxsup.doctor.common_findings import computed_as
    from maxsup.losses.computing.forms import default_form

    check_choice("--device", kind, _DEVICES)
    return _Examined(kind, "device", [computed_as(kind, *default_form(kind))], 2)


def _batches(
    paths: list[str],
    labels: str | None,
    criterion: str | None,
    ignore_index: int | None,
    num_classes: int | None,
    *,
    is_accumulated: bool,
) -> list[_Examined]:
    if not paths:
        return []
    from maxsup.doctor.batch import examine_accumulation, examine_batch
    from maxsup.doctor.criterion import ignored_label, smoothers

    arrays = [_arrays(path, labels) for path in paths]
    examined = []
    for path, (logits, targets) in zip(paths, arrays, strict=True):
        found = examine_batch(logits, targets, num_classes=num_classes, ignore_index=ignore_index, criterion=criterion)
        examined.append(_Examined(path, f"batch, logits {tuple(logits.shape)}", found, 4))
    if is_accumulated:
        parts = [targets for _, targets in arrays]
        if ignore_index is None:
            ignore_index = ignored_label([] if criterion is None else smoothers(criterion))
        found = examine_accumulation(parts, ignore_index=ignore_index)
        examined.append(_Examined(", ".join(paths), "one optimiser step", found, 4))
    return examined


def _arrays(path: str, labels: str | None) -> tuple[Tensor, Tensor]:
    """Logits and targets as they are: what is wrong with them is for the doctor to say."""
    from maxsup.core.errors import DataError
    from maxsup.diagnosis.array_files import file_contents

    found = file_contents(path, "logits")
    if labels is not None:
        return _tensor(found.array, "logits"), _tensor(file_contents(labels, "labels").array, "targets")
    name = next((name for name in ("targets", "labels") if name in found.others), None)
    if name is None:
        raise DataError(
            f"targets must be given with the logits; got {path!r} alone, which holds none. Add --labels y.npy."
        )
    return _tensor(found.array, "logits"), _tensor(found.others[name](), "targets")


def _tensor(values: Any, what: str) -> Tensor:
    import numpy as np
    import torch

    from maxsup.core.errors import DataError

    if isinstance(values, torch.Tensor):
        return values
    if values.dtype.kind not in "fiub":
        raise DataError(f"{what} must be real numbers; got {values.dtype}. Save them as float32 or int64.")
    native = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    # A column, as text files and data frames have it, and whole numbers that a text file cannot say are whole.
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
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for number, one in enumerate(examined):
        if number:
            console.print()
        console.print(Text.assemble((one.source, "bold"), f" ({one.kind})"), soft_wrap=True)
        if not one.findings:
            console.print(Padding(Text("no problem found", style="green"), (0, 0, 0, 2)))
        for finding in one.findings:
            level = Text(f"{finding.level:<8}", style=f"bold {_COLORS[finding.level]}")
            console.print(Padding(Text.assemble(level, (finding.topic, "bold")), (0, 0, 0, 2)))
            console.print(Padding(Text(finding.sentence), (0, 0, 0, 10)))
            console.print(Padding(Text(f"Fix: {finding.advice}", style="dim"), (0, 0, 0, 10)))
