"""Run timm's own training script with MaxSup as the training loss.

In your own loop use ``MaxSupLoss`` directly: it takes class indices and the mixed labels of ``Mixup``, and works in
``timm.task.ClassificationTask``. This module is for the script: ::

    python -m maxsup.integrations.timm train DATA --script train.py --model resnet50 --loss maxsup --alpha 0.1

loads the script, wraps its ``train_one_epoch`` and calls its ``main``. Smoothing is switched off both in the loss and
in ``Mixup``. Validation is timm's plain cross-entropy. Options that ``--help`` does not list are passed to the script.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.util
import inspect
import logging
import os
import sys
from collections.abc import MutableMapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from maxsup.core.checks import check_number
from maxsup.core.errors import MaxsupError
from maxsup.core.schedules import Linear, epoch_progress
from maxsup.integrations.checks import check_epochs, not_installed
from maxsup.losses import MaxSupLoss

__all__ = ["load_script", "main", "use_maxsup"]

SCRIPT_VARIABLE = "MAXSUP_TIMM_SCRIPT"
# The likely module of the script if timm packages it; up to 1.0.30 it is not packaged.
_SCRIPT_MODULE = "timm.train"
_SEAMS = ("main", "train_one_epoch")
# Newest first. These also return the number of epochs, cooldown included.
_SCHEDULER_MAKERS = ("create_scheduler_v2", "create_scheduler")
_OTHER_LOSSES = ("bce_loss", "jsd_loss")
# Criteria of torch and timm that MaxSup can replace: a softmax over classes, with labels or mixed labels.
_REPLACEABLE = ("CrossEntropyLoss", "LabelSmoothingCrossEntropy", "SoftTargetCrossEntropy")

_logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``python -m maxsup.integrations.timm`` with these arguments, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        _train(words)
    except MaxsupError as error:
        if "--debug" in words:
            raise
        print(f"maxsup: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _train(words: list[str]) -> None:
    options, rest = _parse(words)
    smoothing = options.smoothing or 0.0
    if smoothing > 0 and not options.allow_both:
        raise MaxsupError(
            f"--smoothing must be 0 with --loss maxsup, which replaces it; got {smoothing:g}. "
            "Leave --smoothing out, or add --allow-both to use both.",
            code="both-smoothings",
        )
    if importlib.util.find_spec("timm") is None:
        raise MaxsupError(str(not_installed("timm")))
    alpha = options.alpha if options.alpha_end is None else Linear(options.alpha, options.alpha_end)
    script = load_script(options.script)
    use_maxsup(script, MaxSupLoss(alpha), smoothing=smoothing)
    before = sys.argv
    sys.argv = [str(script.__file__), *rest, "--smoothing", f"{smoothing:g}"]
    try:
        script.main()
    finally:
        sys.argv = before


def _parse(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return our options, and the remaining words for the script in their order."""
    parser = argparse.ArgumentParser(
        prog="python -m maxsup.integrations.timm",
        usage="%(prog)s train DATA [--script PATH] [--loss maxsup] [--alpha A] [--alpha-end A] [options of timm]",
        description="Run timm's own training script with MaxSup as the training loss.",
    )
    parser.add_argument("--script", type=Path, help=f"timm's train.py (default: ${SCRIPT_VARIABLE}, then ./train.py)")
    parser.add_argument("--loss", default="maxsup", choices=["maxsup"], help="the training loss")
    parser.add_argument("--alpha", type=float, default=0.1, help="strength, in the first epoch (default: 0.1)")
    parser.add_argument("--alpha-end", type=float, help="strength in the last epoch, linear between (default: alpha)")
    parser.add_argument("--smoothing", type=float, help="label smoothing of timm; off unless --allow-both is given")
    parser.add_argument("--allow-both", action="store_true", help="use label smoothing and MaxSup together")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    if words[:1] != ["train"] and not {"-h", "--help"} & set(words):
        parser.error(f"the first word must be train; got {words[0] if words else 'nothing'!r}")
    options, rest = parser.parse_known_args(words[1:] if words[:1] == ["train"] else words)
    try:
        check_number("--alpha", options.alpha)
        check_number("--alpha-end", options.alpha_end or 0.0)
        check_number("--smoothing", options.smoothing or 0.0, high=1.0)
    except ValueError as error:
        raise MaxsupError(str(error)) from None
    return options, rest


def load_script(path: Path | None = None) -> ModuleType:
    """Import timm's training script as a module, without starting it.

    Without ``path``, use the file in the environment variable ``MAXSUP_TIMM_SCRIPT``, a module of timm itself, or
    ``train.py`` in the current folder, in this order.
    """
    given = path or (Path(found) if (found := os.environ.get(SCRIPT_VARIABLE)) else None)
    if given is None and importlib.util.find_spec(_SCRIPT_MODULE):
        script = importlib.import_module(_SCRIPT_MODULE)
        _check_seams(set(vars(script)), _SCRIPT_MODULE)
        return script
    file = given or Path("train.py")
    if not file.is_file():
        what = f"the script {str(given)!r} is not there" if given else "there is none here"
        raise MaxsupError(
            f"timm's train.py must be given; {what}. It is not part of the installed package: git clone --depth 1 "
            f"--branch v{version('timm')} https://github.com/huggingface/pytorch-image-models and pass --script "
            f"pytorch-image-models/train.py (or set {SCRIPT_VARIABLE}).",
            code="script-not-found",
        )
    # Check the source before importing: any project may have a train.py, and many start training on import.
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (SyntaxError, ValueError):
        raise _missing_seam(str(file), "a line of Python that can be read") from None
    _check_seams({node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, str(file))
    spec = importlib.util.spec_from_file_location("timm_training_script", file.resolve())
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    return script


def use_maxsup(script: ModuleType, criterion: MaxSupLoss, *, smoothing: float = 0.0) -> None:
    """Make the script train with ``criterion``, and advance its schedule before every epoch.

    The strength follows from the epoch number, so it is right after ``--resume`` too.

    Args:
        script: The module from :func:`load_script`; its ``train_one_epoch`` and ``create_scheduler_v2`` are wrapped.
        criterion: The training loss. It gets the class weights of the script's own criterion.
        smoothing: Additional label smoothing, for labels that no ``Mixup`` has smoothed already.
    """
    train_one_epoch = script.train_one_epoch
    signature = inspect.signature(train_one_epoch)
    holder = next((name for name in ("task", "loss_fn") if name in signature.parameters), None)
    maker = next((name for name in _SCHEDULER_MAKERS if hasattr(script, name)), None)
    if holder is None or "epoch" not in signature.parameters or maker is None:
        raise _missing_seam(
            str(script.__file__), "train_one_epoch(epoch, ..., task or loss_fn) and a scheduler made by timm"
        )
    num_epochs: int | None = None
    criterion.register_forward_pre_hook(_check_outputs)
    if smoothing > 0:
        criterion.register_forward_pre_hook(functools.partial(_smooth_labels, smoothing=smoothing))

    make_scheduler = getattr(script, maker)

    @functools.wraps(make_scheduler)
    def counting_epochs(*args: Any, **kwargs: Any) -> tuple[Any, int]:
        nonlocal num_epochs
        made: tuple[Any, int] = make_scheduler(*args, **kwargs)
        num_epochs = made[1]
        return made

    @functools.wraps(train_one_epoch)
    def with_maxsup(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        epoch, settings = bound.arguments["epoch"], bound.arguments.get("args")
        # Checked whether set by a flag or a config file: without smoothing the script itself ignores them.
        for flag in _OTHER_LOSSES:
            if getattr(settings, flag, False):
                name = flag.replace("_", "-")
                raise MaxsupError(
                    f"--{name} must be left out with --loss maxsup; got both. Choose one training loss.",
                    code="option-conflict",
                )
        if holder == "task":
            # A compiled task holds the original one.
            task = getattr(bound.arguments["task"], "_orig_mod", bound.arguments["task"])
            task.criterion = _replace_criterion(task.criterion, criterion)
        else:
            bound.arguments["loss_fn"] = _replace_criterion(bound.arguments["loss_fn"], criterion)
        if num_epochs is None:
            raise _missing_seam(str(script.__file__), f"a call of {maker}")
        try:
            check_epochs(criterion.schedule, num_epochs, "Raise --epochs, or leave --alpha-end out.")
        except ValueError as error:
            raise MaxsupError(str(error)) from None
        criterion.train()
        criterion.set_progress(epoch_progress(epoch, num_epochs))
        if not getattr(settings, "rank", 0):
            _logger.info("MaxSup: epoch %d of %d, alpha %.4g", epoch, num_epochs, criterion.alpha)
        metrics = train_one_epoch(*bound.args, **bound.kwargs)
        if isinstance(metrics, MutableMapping):
            metrics["alpha"] = criterion.alpha  # timm writes these metrics to summary.csv
        return metrics

    setattr(script, maker, counting_epochs)
    script.train_one_epoch = with_maxsup  # type: ignore[attr-defined]


def _replace_criterion(old: nn.Module, criterion: MaxSupLoss) -> MaxSupLoss:
    """Return ``criterion`` with the class weights of ``old``, which it replaces."""
    if old is criterion:
        return criterion
    if type(old).__name__ not in _REPLACEABLE:
        raise MaxsupError(
            f"the criterion of the script must be one of {', '.join(_REPLACEABLE)} for --loss maxsup; got "
            f"{type(old).__name__}. Leave out the option that selects it.",
            code="unknown-criterion",
        )
    weight = getattr(old, "weight", None)
    if isinstance(weight, Tensor):
        criterion.weight = weight
    return criterion


def _check_outputs(criterion: nn.Module, args: tuple[Any, ...]) -> None:
    if isinstance(args[0], (tuple, list)):
        raise MaxsupError(
            f"the model must give one tensor of logits in training; got {len(args[0])} outputs. A distilled model "
            "trains with --kd-distill-type token and a teacher, or pass its first output to the loss.",
            code="several-outputs",
        )


def _smooth_labels(criterion: nn.Module, args: tuple[Any, ...], smoothing: float) -> tuple[Any, ...] | None:
    logits, target = args
    if target.is_floating_point():
        return None
    num_classes = logits.shape[-1]
    return logits, F.one_hot(target, num_classes).to(logits.dtype) * (1.0 - smoothing) + smoothing / num_classes


def _check_seams(names: set[str], where: str) -> None:
    if missing := [f"{name}()" for name in _SEAMS if name not in names]:
        raise _missing_seam(where, " and ".join(missing))


def _missing_seam(where: str, what: str) -> MaxsupError:
    return MaxsupError(
        f"the script must be timm's train.py; got {where!r} without {what}. "
        "Pass the train.py of timm's repository, at the tag of the installed version, as --script."
    )


if __name__ == "__main__":
    sys.exit(main())
