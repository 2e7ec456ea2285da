"""Recipes as typed, frozen values: everything one training run needs, checked before anything is spent on it.

A recipe cannot execute anything: it holds numbers and names, and names are looked up in registries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from maxsup.lab.core.files.storage import json_text
from maxsup.lab.core.old_keys import in_new_words
from maxsup.lab.core.validation import validated


class Section(BaseModel):
    """A part of a recipe: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)


def _check_range(name: str, value: tuple[float, float], what: str, *, most: float | None = None, usual: str) -> None:
    low, high = value
    if not 0.0 < low <= high or (most is not None and high > most):
        bound = "" if most is None else f" <= {most:g}"
        rule = f"{name} must be a smallest and a largest {what}, 0 < low <= high{bound}"
        raise ValueError(f"{rule}; got {value!r}. Usual: {usual}.")


class AugmentConfig(Section):
    """What is done to images; the last five keys hold in evaluation too.

    Evaluation scales an image until its shorter side (``crop_mode: center``) or both sides (``squash``) are the image
    size divided by ``crop_pct``, and takes the centre. None means what a pretrained network was trained with; for other
    networks no crop, bilinear interpolation, and mean and standard deviation of the data set.
    """

    crop_padding: int = Field(default=0, ge=0)
    random_crop: bool = False
    flip: bool = False
    rotation: float = Field(default=0.0, ge=0.0, le=180.0)
    random_resized_crop: bool = False
    scale: tuple[float, float] = (0.08, 1.0)
    color_jitter: float = Field(default=0.0, ge=0.0, le=10.0)
    randaugment: str | None = None
    random_erasing: float = Field(default=0.0, ge=0.0, le=1.0)
    mixup: float = Field(default=0.0, ge=0.0)
    cutmix: float = Field(default=0.0, ge=0.0)
    crop_pct: float | None = Field(default=None, gt=0.0, le=1.0)
    crop_mode: Literal["center", "squash"] | None = None
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[Annotated[float, Field(gt=0.0)], ...] | None = None

    @model_validator(mode="after")
    def _is_sound(self) -> AugmentConfig:
        _check_range("scale", self.scale, "share of the image", most=1.0, usual="[0.08, 1.0]")
        if len(self.mean or ()) != len(self.std or ()):
            raise ValueError(
                f"mean and std must have one number a channel each; got {self.mean} and {self.std}. Give both."
            )
        return self


class DataConfig(Section):
    """Which images, where they are, and which share of the training images is held out for validation."""

    name: str = "digits"
    root: str | None = None
    options: dict[str, Any] = {}
    image_size: int | None = Field(default=None, gt=0)
    val_share: float = Field(default=0.1, ge=0.0, lt=1.0)
    split_seed: int = Field(default=0, ge=0)
    drop_last: bool = False
    num_workers: int = Field(default=0, ge=0)
    download: bool = False
    tolerance: float = Field(default=0.001, ge=0.0, le=1.0)


class DenseConfig(Section):
    """What is done to images that have masks, and how they are evaluated; ``data.image_size`` is the crop.

    ``resize`` is the shorter side before the crop (the longer one stays below four times that), ``ratio`` the range of
    a random factor on it, ``cat_max_ratio`` the largest share of a crop that one class may have. Evaluation sees an
    image ``whole``, or through a window of the crop's size that moves by ``stride`` (``slide``).
    """

    resize: int | None = Field(default=None, gt=0)
    ratio: tuple[float, float] = (1.0, 1.0)
    cat_max_ratio: float = Field(default=1.0, gt=0.0, le=1.0)
    photometric: bool = False
    evaluation: Literal["whole", "slide"] = "whole"
    stride: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _is_sound(self) -> DenseConfig:
        _check_range("ratio", self.ratio, "factor", usual="[0.5, 2]")
        if (self.evaluation == "slide") != (self.stride is not None):
            raise ValueError(
                f"stride must be given with evaluation=slide and only there; got evaluation={self.evaluation} and "
                f"stride={self.stride}. Usual: two thirds of the image size."
            )
        return self


AUTO = "auto"
"""Value of ``model.name`` and ``model.pretrained`` where the data decides."""


class ModelConfig(Section):
    """The network: a registered name or any of timm."""

    name: str = "small_cnn"
    options: dict[str, Any] = {}
    pretrained: bool | str = False
    classifier: Literal["linear", "tde"] = "linear"


class LossConfig(BaseModel):
    """The loss by name; every other key is an option of that loss.

    A strength may be a number, the name of a schedule of the paper, or ``{schedule: linear, start: 0.1, end: 0.2}``.
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    name: str = "maxsup"

    @property
    def options(self) -> dict[str, Any]:
        """All keys but the name."""
        return dict(self.model_extra or {})

    @property
    def label(self) -> str:
        """The loss with its options in one line: the one way in which tables, pages and files word a loss.

        Example:
            >>> LossConfig(name="maxsup", alpha={"schedule": "linear", "start": 0.1, "end": 0.2}).label
            'maxsup alpha=0.1..0.2'
        """
        return " ".join([self.name, *(f"{key}={option_text(value)}" for key, value in self.options.items())])


def option_text(value: Any) -> str:
    """An option of a loss in one word; a linear schedule by its ends, another one by its name and ends.

    Example:
        >>> option_text(0.1), option_text({"schedule": "cosine", "start": 0.1, "end": 0.2})
        ('0.1', 'cosine:0.1..0.2')
    """
    if not isinstance(value, Mapping):
        return str(value)
    ends = "..".join(str(end) for key, end in value.items() if key != "schedule")
    return ends if value.get("schedule") == "linear" else f"{value.get('schedule')}:{ends}"


# A float32 holds 3e38, and AdamW multiplies a rate by a decay and divides it by 1 - beta.
_MAX_RATE, _MAX_DECAY = 1e30, 1e6


class OptimizerConfig(Section):
    """``decay_filter`` chooses what decays: ``all``, only ``weights`` (no biases, no norms), or as ``paper_names``.

    ``norms`` excludes norms. Both it and ``weights`` exclude what the model lists, such as position embeddings.
    """

    name: Literal["sgd", "adamw"] = "sgd"
    lr: float = Field(default=0.1, gt=0.0, le=_MAX_RATE)
    momentum: float = Field(default=0.9, ge=0.0, lt=1.0)
    nesterov: bool = False
    weight_decay: float = Field(default=0.0, ge=0.0, le=_MAX_DECAY)
    decay_filter: Literal["all", "weights", "norms", "paper_names"] = "all"
    betas: tuple[float, float] = (0.9, 0.999)

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> OptimizerConfig:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov must go with a momentum above 0; got momentum=0. Set momentum=0.9.")
        return self


class ScheduleConfig(Section):
    """The learning rate over time: a linear warm-up from ``warmup_start * lr``, then the named decay."""

    name: Literal["constant", "cosine", "linear", "polynomial", "step", "multistep"] = "cosine"
    interval: Literal["step", "epoch"] = "step"
    warmup_epochs: float = Field(default=0.0, ge=0.0)
    warmup_iterations: int = Field(default=0, ge=0)
    warmup_start: float = Field(default=0.0, ge=0.0, le=1.0)
    milestones: tuple[int, ...] = ()
    step_size: int = Field(default=30, gt=0)
    power: float = Field(default=1.0, gt=0.0)
    gamma: float = Field(default=0.1, gt=0.0, le=1.0)
    final_lr: float = Field(default=0.0, ge=0.0, le=_MAX_RATE)

    @model_validator(mode="after")
    def _milestones_grow(self) -> ScheduleConfig:
        if (self.name == "multistep") != bool(self.milestones):
            raise ValueError(
                f"milestones must be given with name=multistep and only there; got name={self.name} and "
                f"milestones={list(self.milestones)}. Write for instance milestones: [60, 120, 160]."
            )
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones must grow; got {list(self.milestones)}. Sort them.")
        if self.power != 1.0 and self.name != "polynomial":
            raise ValueError(f"power must go with name=polynomial; got {self.power:g} with name={self.name}. Drop it.")
        if self.warmup_iterations and (self.warmup_epochs or self.interval == "epoch"):
            raise ValueError(
                f"warmup_iterations must be the only warm-up and go with interval=step; got {self.warmup_iterations} "
                f"with warmup_epochs={self.warmup_epochs:g} and interval={self.interval}. Drop one."
            )
        return self


class EmaConfig(Section):
    """A moving average of the weights; it is always saved, and with ``is_evaluated`` it is the weights of the run."""

    decay: float = Field(default=0.0, ge=0.0, lt=1.0)
    is_evaluated: bool = True


TrackerName = Literal["aim", "clearml", "comet_ml", "dvclive", "mlflow", "swanlab", "tensorboard", "trackio", "wandb"]
"""The trackers that Accelerate knows."""


class Recipe(Section):
    """Everything one training run needs.

    ``epochs`` are passes over the training data. With ``iterations`` training takes that many steps, in as many passes
    as they need, and ``epochs`` is the number of equal parts, each of which ends with a validation. ``teacher`` is a
    run whose network a loss such as ``distillation`` learns from.

    Example:
        >>> recipe = Recipe.model_validate({"loss": {"name": "ls", "alpha": 0.2}, "epochs": 3})
        >>> recipe.loss.name, recipe.loss.options, recipe.optimizer.name
        ('ls', {'alpha': 0.2}, 'sgd')
    """

    data: DataConfig = DataConfig()
    augment: AugmentConfig = AugmentConfig()
    dense: DenseConfig = DenseConfig()
    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    teacher: str | None = None
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    ema: EmaConfig = EmaConfig()
    epochs: int = Field(default=10, gt=0)
    iterations: int | None = Field(default=None, gt=0)
    batch_size: int = Field(default=128, gt=0)
    accumulation: Annotated[int, Field(gt=0)] | Literal["auto"] = 1
    alpha_per_step: bool = False
    clip_norm: float | None = Field(default=None, gt=0.0)
    batchnorm: Literal["local", "frozen", "sync"] = "local"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    channels_last: bool = False
    compile: bool = False
    deterministic: bool = True
    seed: int = Field(default=0, ge=0)
    threads: int | None = Field(default=None, gt=0)
    save_every_steps: int | None = Field(default=None, gt=0)
    tracker: TrackerName | None = None
    log_every: int | None = Field(default=None, gt=0)

    @property
    def num_pieces(self) -> int:
        """Micro-batches of a step; one where ``accumulation=auto`` has not been settled."""
        return 1 if self.accumulation == "auto" else self.accumulation

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps of an epoch if the recipe counts iterations; else None, and an epoch is a pass over the data."""
        return None if self.iterations is None else self.iterations // self.epochs

    def changed(self, **values: Any) -> Recipe:
        """The recipe with other values, unchecked; a mapping changes only the keys of a section that it names."""
        sections = {key: getattr(self, key).model_copy(update=new) for key, new in values.items() if type(new) is dict}
        return self.model_copy(update=values | sections)

    @model_validator(mode="after")
    def _is_sound(self) -> Recipe:
        if self.iterations is None and self.schedule.warmup_iterations:
            raise ValueError(
                f"schedule.warmup_iterations must go with iterations; got {self.schedule.warmup_iterations} without. "
                "Use schedule.warmup_epochs."
            )
        if self.iterations is not None and self.iterations % self.epochs:
            raise ValueError(
                f"iterations must be a multiple of epochs={self.epochs}; got {self.iterations}. "
                "Each epoch has the same number of steps."
            )
        if self.log_every is not None and self.tracker is None:
            raise ValueError(
                f"log_every must go with a tracker; got {self.log_every} without one. Set tracker=tensorboard."
            )
        stride, window = self.dense.stride, self.data.image_size
        if stride is not None and (window is None or stride > window):
            raise ValueError(
                f"dense.stride must be at most data.image_size, the side of the window; got {stride} with "
                f"image_size={window}. Usual: two thirds of it."
            )
        return self


# Where and how fast, not what: a run that goes on with other values of these is still the same run.
_CIRCUMSTANCES = {"threads", "save_every_steps", "tracker", "log_every"}
_CIRCUMSTANCES |= {"data.root", "data.download", "data.num_workers", "data.tolerance"}

# Keys that belong to the loss, data set or model of that name (None: all of them); a new name drops them.
_OPTIONS_OF_A_NAME: dict[str, tuple[str, ...] | None] = {"loss": None, "data": ("options",), "model": ("options",)}


def parse_recipe(values: Mapping[str, Any], overrides: Iterable[str] = (), *, source: str = "recipe") -> Recipe:
    """The recipe that ``values``, as in a YAML file, and ``overrides`` describe; one error names all mistakes.

    Each override is ``key.sub=value``; later ones win. Messages call the recipe ``source``.

    Example:
        >>> parse_recipe({"epochs": 5}, ["optimizer.lr=0.5", "loss.name=ls"]).optimizer.lr
        0.5
        >>> parse_recipe({}, ["optimiser.lr=0.5"])
        Traceback (most recent call last):
        ValueError: key of recipe must be one it has; got 'optimiser'. Did you mean 'optimizer'?
    """
    # Twice: a ratio that a file gives in old words stays the same if an override changes the image size.
    merged = in_new_words(deepcopy(dict(values)))
    for override in overrides:
        _override(merged, override)
    return validated(Recipe, in_new_words(merged), source=source, fix="See `maxsup cp` for a complete recipe.")


def flat_items(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping with dotted keys, as overrides write them.

    Example:
        >>> flat_items({"loss": {"name": "ls"}, "epochs": 5})
        {'loss.name': 'ls', 'epochs': 5}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        is_section = isinstance(value, Mapping) and value
        flat |= flat_items(value, f"{prefix}{key}.") if is_section else {f"{prefix}{key}": value}
    return flat


def experiment_items(recipe: Recipe) -> dict[str, Any]:
    """What a recipe says about the experiment, with dotted keys; circumstances such as threads are left out."""
    items = flat_items(recipe.model_dump(mode="json"))
    return {key: value for key, value in items.items() if key not in _CIRCUMSTANCES}


def differing_keys(first: Recipe, second: Recipe) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two recipes differ as experiments, with both values."""
    left, right = experiment_items(first), experiment_items(second)
    return {key: (left.get(key), right.get(key)) for key in left | right if left.get(key) != right.get(key)}


def recipe_digest(recipe: Recipe) -> str:
    """Return a short hash that differs between any two experiments; circumstances such as threads do not count.

    Example:
        >>> recipe_digest(Recipe()) == recipe_digest(Recipe(threads=1))
        True
    """
    experiment = experiment_items(recipe)
    if recipe.teacher is None:  # so that runs made before there were teachers keep their names
        del experiment["teacher"]
    return hashlib.blake2b(json_text(experiment).encode(), digest_size=4).hexdigest()


def _override(values: dict[str, Any], text: str) -> None:
    from maxsup.lab.core.recipes import parse_yaml

    key, equals, value = text.partition("=")
    parts = key.split(".")
    if not equals or not all(parts):
        raise ValueError(f"override must be key.sub=value; got {text!r}. Write for instance optimizer.lr=0.1.")
    if parts[-1] == "name" and len(parts) == 2 and parts[0] in _OPTIONS_OF_A_NAME:
        section = values.get(parts[0])
        if isinstance(section, dict) and section.get("name") != value:
            dropped = _OPTIONS_OF_A_NAME[parts[0]] or tuple(section)
            values[parts[0]] = {known: kept for known, kept in section.items() if known not in dropped}
    place = values
    for part in parts[:-1]:
        if not isinstance(place.get(part), dict):
            # A number, such as loss.alpha=0.1 before loss.alpha.end=0.2, gives way to the mapping.
            place[part] = {}
        place = place[part]
    place[parts[-1]] = parse_yaml(value, source=f"value of {key}")
