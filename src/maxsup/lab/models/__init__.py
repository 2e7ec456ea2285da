"""All models behind one interface: our own by name, and any classifier of timm, torchvision or transformers.

An ``@MODELS.register`` decorator on a function in this folder is the whole registration: ``create_model``,
``maxsup ls models`` and the contract tests find it. The first model that needs timm imports it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from maxsup.core.checks import check_choice, check_count
from maxsup.core.registry import import_modules
from maxsup.lab.models.base import MODELS, Classifier, Preprocessing
from maxsup.lab.models.factories import PYTHON_PREFIX, Factory, factory_of, model_name
from maxsup.lab.models.libraries.blurpool import blur_strided_convolutions
from maxsup.lab.models.libraries.hf_models import HF_PREFIX, create_hf_model
from maxsup.lab.models.libraries.pretrained import class_names_of, num_classes_of, published_preprocessing
from maxsup.lab.models.libraries.programs import PROGRAM_SUFFIXES, Program, load_program
from maxsup.lab.models.libraries.timm_models import TimmClassifier, create_timm_model, timm_name
from maxsup.lab.models.libraries.torchvision_models import TORCHVISION_PREFIX, create_torchvision_model
from maxsup.lab.models.networks.causal_norm import CausalNormHead, causal_norm_logits
from maxsup.lab.models.weights import fitting_weights, no_published_weights, warn_new_head

import_modules(__name__)

__all__ = [
    "MODELS",
    "PROGRAM_SUFFIXES",
    "CausalNormHead",
    "Classifier",
    "Factory",
    "Preprocessing",
    "Program",
    "TimmClassifier",
    "causal_norm_logits",
    "class_names_of",
    "create_model",
    "describe_models",
    "factory_of",
    "list_models",
    "load_program",
    "model_name",
    "num_classes_of",
    "published_preprocessing",
]

CLASSIFIERS = ("linear", "tde")


def create_model(
    name: str,
    num_classes: int,
    *,
    in_channels: int = 3,
    image_size: int | None = None,
    pretrained: bool | str | Path = False,
    classifier: str = "linear",
    blurpool: bool = False,
    **options: Any,
) -> Classifier:
    """The model registered under ``name``, or the one of another library.

    Args:
        name: Of ``list_models()``, or of ``timm.list_models()`` (``timm:NAME`` never means one of ours);
            ``torchvision:NAME``, or ``hf:PATH_OR_NAME`` for an image classifier of transformers.
        num_classes: Width of the logits.
        in_channels: Of the images.
        image_size: Side of the images; only models made for one size (ViT, Swin) use it.
        pretrained: A file (``.safetensors``, or a torch file of tensors), or True for the published weights, or
            those in the folder of transformers. A head of another size starts untrained, with a warning.
        classifier: ``"tde"`` replaces the linear head by the causal-norm classifier of the long-tail table.
        blurpool: Blur the input of every strided convolution of 16 or more channels, as the released ImageNet code of
            the paper does.
        options: Of the model; an unknown one is an error.

    Example:
        >>> create_model("small_cnn", 10, in_channels=1)(torch.randn(2, 1, 8, 8)).shape
        torch.Size([2, 10])
        >>> create_model("smal_cnn", 10)
        Traceback (most recent call last):
        ValueError: model must be a registered name or one of timm; got 'smal_cnn'. Did you mean 'small_cnn'?
    """
    check_choice("classifier", classifier, CLASSIFIERS)
    if not isinstance(blurpool, bool):
        raise ValueError(f"blurpool must be true or false; got {blurpool!r}.")
    check_count("num_classes", num_classes)
    check_count("in_channels", in_channels)
    if image_size is not None:
        check_count("image_size", image_size)
    is_published = pretrained is True
    if name in MODELS:
        if is_published:
            raise no_published_weights(name)
        MODELS.check_options(name, options)
        takes_size = "image_size" in inspect.signature(MODELS[name]).parameters
        sized = {"image_size": image_size} if takes_size else {}
        model = MODELS[name](num_classes, in_channels, **sized, **options)
    elif name.startswith(PYTHON_PREFIX):
        raise ValueError(
            f"a model named {PYTHON_PREFIX}... must be made in this session; got {name!r}. Pass the function again, as "
            "model=..., from Python."
        )
    elif name.startswith(TORCHVISION_PREFIX):
        bare = name.removeprefix(TORCHVISION_PREFIX)
        model = create_torchvision_model(bare, num_classes, in_channels, pretrained=is_published, **options)
    elif name.startswith(HF_PREFIX):
        bare = name.removeprefix(HF_PREFIX)
        model = create_hf_model(bare, num_classes, in_channels, pretrained=is_published, **options)
    else:
        model = create_timm_model(
            timm_name(name), num_classes, in_channels, image_size=image_size, pretrained=is_published, **options
        )
    if blurpool and not blur_strided_convolutions(model.body):
        raise ValueError(
            f"blurpool must be false for model {name!r}, which has no strided convolution of 16 channels or more; got "
            "true. Leave it out."
        )
    if classifier == "tde":
        if is_published:
            warn_new_head(f"the published {name}", num_classes, num_classes)
        model.head = CausalNormHead(model.num_features, num_classes)
    if not isinstance(pretrained, bool):
        model.load_state_dict(fitting_weights(model, Path(pretrained)))
    return model


def list_models() -> list[str]:
    """Names of our own models, without the networks that Python code registered.

    Example:
        >>> [name for name in list_models() if name.endswith("_cifar")]
        ['mobilenetv2_cifar', 'resnet101_cifar', 'resnet18_cifar', 'resnet50_cifar']
    """
    return [name for name in MODELS if factory_of(name) is None]


def describe_models() -> list[dict[str, str]]:
    """Name, description and source of each of our own models.

    Example:
        >>> describe_models()[0]["name"]
        'airnet'
    """
    return [{"name": name, **MODELS.facts(name)} for name in list_models()]
