"""Weights from a local file into a model, safely and completely.

``.safetensors``, or a torch file read with ``weights_only=True``, so that no file can run code. Names may be those of
this package (a checkpoint of a run) or of the model's own library, also below the attributes in which a LightningModule
and the wrappers of torch keep the network. Only the head may differ: it then stays untrained, with a warning. Any other
mismatch is an error, because a partly trained network looks bad and not mistaken.
"""

from __future__ import annotations

import pickle
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maxsup.core.errors import StorageError, first_line
from maxsup.core.installation import imported
from maxsup.lab.models.base import Classifier
from maxsup.lab.models.libraries.blurpool import FILTER

Weights = dict[str, Tensor]

# Keys under which training scripts save the weights.
_ENVELOPES = ("state_dict", "model_state_dict", "model", "net", "weights")
_AVERAGES = ("state_dict_ema", "model_ema")  # keys under which timm and torchvision save a moving average beside them
# What torch.compile, FSDP and checkpointing add to names wherever they were called.
_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
_LEAST_SHARE = 0.5  # of the names of a network, for weights below an attribute to be those of the network
_NUM_SHOWN = 3


def fitting_weights(model: Classifier, path: Path) -> Weights:
    """Weights of a file under the names of ``model``; in place of a head that does not fit, its own, with a warning."""
    given = adapted_weights(model, path)
    own = {name: value for name, value in model.state_dict().items() if name.startswith("head.")}
    head = {name: value for name, value in given.items() if name.startswith("head.")}
    if {name: value.shape for name, value in head.items()} != {name: value.shape for name, value in own.items()}:
        warn_new_head(path.name, len(head.get("head.weight", ())), len(own["head.weight"]))
        given = {**{name: value for name, value in given.items() if name not in head}, **own}
    _check_fit(given, model.state_dict(), path)
    return given


def adapted_weights(model: Classifier, path: Path) -> Weights:
    """Weights of a file under the names of ``model``, as far as they are known; whether they fit is not checked."""
    given = _weights_of_network(read_weights(path), model)
    try:
        return model.adapted_weights(given)
    except (AttributeError, IndexError, LookupError, RuntimeError, TypeError) as error:  # of a library's converter
        shown = ", ".join(sorted(given)[:_NUM_SHOWN])
        raise ValueError(
            f"pretrained must fit the model; got {str(path)!r} with weights ({shown}, ...) that its library cannot "
            f"convert ({type(error).__name__}: {first_line(error)}). Create the model that the file was saved from."
        ) from error


def has_blur_filters(path: Path) -> bool:
    """Whether a file holds the weights of anti-aliased convolutions (``model.options.blurpool``)."""
    return _is_blurred(read_weights(path))


def read_weights(path: Path) -> Weights:
    """Names and tensors of a ``.safetensors`` or torch file; a torch file must hold nothing but data."""
    if not path.is_file():
        raise StorageError(
            f"pretrained must be a file that is there; got {str(path)!r}. Write its path, model.pretrained=FILE, or "
            "model.pretrained=false to train from the start.",
            code="weights-not-found",
        )
    # The scripts of timm and torchvision save their arguments with the weights: plain values, which run no code.
    torch.serialization.add_safe_globals([Namespace])
    try:
        if path.suffix == ".safetensors":
            content: Any = imported("safetensors.torch", f"reading {path.name}").load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except ImportError:
        raise
    except Exception as error:  # every format breaks in its own way
        # What torch says of such a file begins with how to run its code.
        is_pickle = isinstance(error, pickle.UnpicklingError)
        reason = "it is damaged, or holds Python objects besides tensors" if is_pickle else first_line(error)
        raise StorageError(
            f"pretrained must be a readable .safetensors file or a torch file of tensors; got {str(path)!r} "
            f"({reason}). Fetch it again, or save model.state_dict() from a program you trust.",
            code="damaged-file",
        ) from error
    if average := next((name for name in _AVERAGES if isinstance(content, dict) and name in content), None):
        warnings.warn(
            f"{path.name} also holds averaged weights, {average!r}, which are not read. To use them, save them alone: "
            f"torch.save(checkpoint[{average!r}], FILE).",
            stacklevel=2,
        )
    for envelope in _ENVELOPES:
        if isinstance(content, dict) and isinstance(content.get(envelope), dict):
            content = content[envelope]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise StorageError(
            f"pretrained must hold names and tensors; got neither in {str(path)!r}. Save a state_dict().",
            code="weights-mismatch",
        )
    return {_unwrapped(name): value for name, value in content.items()}


def warn_new_head(source: str, old: int, new: int) -> None:
    """Warn that the head of a model stays untrained, and why."""
    reason = f"is for {old} classes and this model has {new}" if old and old != new else "is missing or of another kind"
    warnings.warn(f"The head of {source} {reason}, so the head of this model starts untrained.", stacklevel=4)


def no_published_weights(name: str) -> ValueError:
    """The error for ``pretrained=True`` of a model without published weights."""
    return ValueError(
        f"pretrained must be False or a file for model {name!r}, which has no published weights; got True. "
        "Write model.pretrained=false to train from the start, or model.pretrained=FILE with a model.safetensors."
    )


def _unwrapped(name: str) -> str:
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def _is_blurred(weights: Iterable[str]) -> bool:
    return any(name.endswith(f".{FILTER}") for name in weights)


def _weights_of_network(weights: Weights, model: Classifier) -> Weights:
    """The weights below the attributes that hold the network; all weights if no attributes or several ones do.

    A LightningModule saves ``ATTRIBUTE.conv1.weight``, DistributedDataParallel ``module.conv1.weight``, and both may
    stand within each other. Beside the network may stand what a criterion and metrics keep.
    """
    own = {name for name in model.state_dict() if not name.startswith("head.")}
    for known in (own, {name.removeprefix("body.") for name in own}):
        found = Counter(name[: len(name) - len(rest)] for name in weights for rest in _tails(name) if rest in known)
        most = max(found.values(), default=0)
        best = [place for place, count in found.items() if count == most]
        if len(best) == 1 and most >= _LEAST_SHARE * len(known):
            return {name.removeprefix(best[0]): value for name, value in weights.items() if name.startswith(best[0])}
    return weights


def _tails(name: str) -> Iterator[str]:
    """A name, and what is left of it after each dot."""
    yield name
    while "." in name:
        name = name.partition(".")[2]
        yield name


def _check_fit(given: Weights, wanted: Weights, path: Path) -> None:
    problems = {
        "missing": sorted(wanted.keys() - given.keys()),
        "unknown": sorted(given.keys() - wanted.keys()),
        "of another shape": [name for name in wanted if name in given and given[name].shape != wanted[name].shape],
    }
    found = [
        f"{len(names)} {kind} ({', '.join(names[:_NUM_SHOWN])}{', ...' * (len(names) > _NUM_SHOWN)})"
        for kind, names in problems.items()
        if names
    ]
    if not found:
        return
    if _is_blurred(given) != _is_blurred(wanted):
        kinds = ("plain", "anti-aliased") if _is_blurred(given) else ("anti-aliased", "plain")
        raise ValueError(
            f"pretrained must fit the model; got {str(path)!r} with weights of {kinds[1]} convolutions for a model of "
            f"{kinds[0]} ones. Write model.options.blurpool={'true' if _is_blurred(given) else 'false'}."
        )
    raise ValueError(
        f"pretrained must fit the model; got {str(path)!r} with weights {', '.join(found)}. "
        "Create the model by the name, options and number of channels that the file was saved with."
    )
