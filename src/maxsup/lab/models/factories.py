"""Networks from Python code: a function or a class in place of a registered name.

Recipes hold only names, so a function gets one: ``python:NAME-DIGEST``. The digest covers layers and shapes: the same
function gets the same name in the next session, and a network with other layers gets another one.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import nn

from maxsup.lab.models.base import MODELS, Classifier
from maxsup.lab.models.inference import evaluation_mode
from maxsup.lab.models.libraries.cut import CutClassifier, last_linear

PYTHON_PREFIX = "python:"

Factory = Callable[..., nn.Module]

_FACTORIES: dict[str, Factory] = {}


def model_name(model: str | Factory) -> str:
    """The name under which recipes find a network; a function is registered under one in this process.

    A name stays as it is. A function is called with the number of classes, and with ``in_channels`` if it has such a
    parameter; the network that it returns must end in one linear layer.

    Example:
        >>> model_name("small_cnn")
        'small_cnn'
        >>> model_name(lambda num_classes: nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes)))
        'python:lambda-...'
    """
    if isinstance(model, str):
        return model
    if isinstance(model, nn.Module) or not callable(model):
        raise TypeError(
            f"model must be a name or a function that makes a network, because every run begins with new weights; got "
            f"{type(model).__name__}. Write for instance lambda num_classes: MyNet(num_classes)."
        )
    with torch.random.fork_rng(devices=[]):
        network = _made(model, 10, 3)
    shapes = [(key, tuple(value.shape)) for key, value in network.state_dict().items()]
    text = re.sub(r"0x[0-9a-f]+", "", f"{network!r} {shapes}")  # addresses differ from session to session
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    bare = model
    while isinstance(bare, partial):
        bare = bare.func
    title = getattr(bare, "__qualname__", type(model).__name__).rpartition(".")[2]
    name = f"{PYTHON_PREFIX}{re.sub(r'[^0-9A-Za-z_]', '', title)}-{digest}"
    if name not in MODELS:
        MODELS.register(name, about="made in Python", source="this session")(partial(_classifier, name))
    _FACTORIES[name] = model
    return name


def factory_of(name: str) -> Factory | None:
    """The function behind a name of :func:`model_name`; None for any other name."""
    return _FACTORIES.get(name)


def _classifier(name: str, num_classes: int, in_channels: int = 3, *, image_size: int | None = None) -> Classifier:
    with torch.device("cpu"):  # even inside torch.device("meta"), because a function may load weights
        network = _made(_FACTORIES[name], num_classes, in_channels)
        if isinstance(network, Classifier):
            return network
        images = torch.zeros(2, in_channels, image_size or 32, image_size or 32)
        before = _output(network, images)
        made = CutClassifier(network, last_linear(network, num_classes))
        after = None if before is None else _output(made, images)
    if before is not None and (after is None or not torch.allclose(before, after, atol=1e-4)):
        raise ValueError(
            f"model must return the output of its last linear layer; got {name!r}, which changes it. Leave out what "
            "follows, such as a softmax: losses take logits."
        )
    return made


def _made(factory: Factory, num_classes: int, in_channels: int) -> nn.Module:
    parameters = inspect.signature(factory).parameters
    known: dict[str, Any] = {"num_classes": num_classes, "in_channels": in_channels, "in_chans": in_channels}
    named = {key: value for key, value in known.items() if key in parameters}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        named["num_classes"] = num_classes
    network = factory(**named) if "num_classes" in named or not parameters else factory(num_classes, **named)
    if not isinstance(network, nn.Module):
        raise TypeError(f"model must make an nn.Module; got {type(network).__name__}. Return the network.")
    return network


def _output(network: nn.Module, images: torch.Tensor) -> torch.Tensor | None:
    """Logits of a few images; None if the network needs images of another shape, which training will report."""
    with torch.no_grad(), evaluation_mode(network), suppress(RuntimeError):
        output = network(images)
        found = getattr(output, "logits", output)
        return found if isinstance(found, torch.Tensor) else None
    return None
