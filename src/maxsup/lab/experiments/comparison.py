"""``maxsup compare``: one experiment with the losses that were asked for, and the table of its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from maxsup.core.errors import counted, hint
from maxsup.lab.core.config import LossConfig, Recipe
from maxsup.lab.core.recipes import list_recipes, read_yaml, recipe_path
from maxsup.lab.experiments.design import Choice, Design
from maxsup.lab.experiments.experiment import Analysis, Arm, Experiment, Setting, read_recipe
from maxsup.lab.experiments.table import Line, Metric, Place, Table
from maxsup.lab.experiments.tuning import Strengths, strength_of
from maxsup.lab.tasks import Task, task_of_model
from maxsup.lab.training.builders import build_loss, loss_config
from maxsup.lab.training.preflight.check import check_recipe
from maxsup.losses import LOSSES, RegularizedLoss

# The losses of the paper's main table (tab:comparison_new) with its strengths, MaxSup and label smoothing constant.
LOSS_OPTIONS: dict[str, dict[str, Any]] = {
    "ce": {},
    "ls": {"alpha": 0.1},
    "zipf_ls": {"alpha": 0.1, "ranking": "dense"},
    "ols": {"alpha": 0.5},
    "maxsup": {"alpha": 0.1},
    "logit_penalty": {"beta": 0.002},
}
# What a comparison varies itself, and an example of the argument for it.
_ARGUMENTS = {"loss": "losses, for instance ce,ls,maxsup:0.2", "seed": "seeds, for instance 6"}

_FACTORS = {"x": "place (x)", "hue": "hue"}

METRICS = {
    "accuracy": Metric(margin=0.3),
    "nll": Metric(name="nll"),
    "nll_after": Metric(source="repair", name="nll_after"),
    "ece": Metric(name="ece"),
    "ece_after": Metric(source="repair", name="ece_after"),
    "aurc": Metric(source="calibration", name="aurc"),
    "confidence_wrong": Metric(name="confidence_wrong"),
    "within": Metric(source="collapse", name="train_within"),
    "r_squared": Metric(source="collapse", name="train_r_squared"),
}
MASK_METRICS = {
    "miou": Metric(name="miou"),
    "accuracy": Metric(title="pixel accuracy", margin=0.3),
    "class_accuracy": Metric(name="class_accuracy"),
    "nll": METRICS["nll"],
}

LossChoice: TypeAlias = "str | Mapping[str, Any] | LossConfig | RegularizedLoss"
"""A loss of a comparison: ``name``, ``name:strength``, a mapping with ``name`` and options, or a loss."""


class Contender(NamedTuple):
    """A loss of a comparison: the name of its arm, what a page calls it, and its options."""

    name: str
    title: str
    loss: LossConfig


def comparison(
    recipe: str,
    losses: Sequence[LossChoice] | None = None,
    *,
    seeds: int | Sequence[int] = 6,
    baseline: str | None = None,
    overrides: Iterable[str] = (),
    strengths: Strengths | None = None,
) -> Design:
    """Design a comparison under one recipe; the arguments are those of :func:`maxsup.lab.experiments.compare`.

    ``strengths`` are options of losses by name, as tuning found them.

    Example:
        >>> design = comparison("digits_cnn", ["ce", "ls", "maxsup:0.2"])
        >>> design.table.baseline, [row.title for row in design.table.rows], len(design.seeds)
        ('ls', ['ce', 'ls', 'maxsup 0.2'], 6)
    """
    if isinstance(losses, str):
        raise TypeError(f"losses must be a list; got {losses!r}. Write for instance losses=['ce', 'ls', 'maxsup'].")
    chosen_seeds = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen_seeds:
        raise ValueError(f"seeds must be at least 1; got {seeds!r}. Fewer than six cannot show anything.")
    if len(set(chosen_seeds)) < len(chosen_seeds):
        raise ValueError(f"seeds must be different numbers; got {seeds!r}. Leave out duplicates.")
    words = tuple(overrides)
    for word in words:
        if (key := word.partition("=")[0].partition(".")[0]) in _ARGUMENTS:
            raise ValueError(f"overrides of a comparison must not set {key}; got {word!r}. Use {_ARGUMENTS[key]}.")
    base = read_recipe(str(recipe), words)
    if losses is None:
        losses = [loss for loss in LOSS_OPTIONS if _fits(loss, task_of_model(base.model.name))]
    arms: dict[str, Contender] = {}  # by the word for the loss, else by the name of the arm
    for loss in losses:
        arm = _of_word(loss, strengths or {}) if isinstance(loss, str) else _of_object(loss_config(loss), arms)
        arms[loss if isinstance(loss, str) else arm.name] = arm
    titles = {arm.name: arm.title for arm in arms.values()}
    if len(arms) < 2:
        got = ", ".join(titles) or "none"
        raise ValueError(f"losses must be two or more; got {got}. Name for instance ce, ls and maxsup.")
    baseline = _baseline(baseline, arms)
    for arm in arms.values():
        # Otherwise a loss that cannot be trained on this data would fail after the others have been trained.
        check_recipe(base.changed(loss=arm.loss))
    metrics, analyses = usual_numbers(base)
    others = [title for name, title in titles.items() if name != baseline]
    asked = f"Is {others[0]}" if len(others) == 1 else f"Which of {', '.join(others)} is"
    return one_experiment(
        Setting(recipe=str(recipe), overrides=words),
        list(arms.values()),
        chosen_seeds,
        metrics,
        baseline,
        analyses=tuple(analyses),
        name="compare",
        kind="comparison",
        note=f"{base.model.name} on {base.data.name}, {counted(base.epochs, 'epoch')}.",
        title=f"{len(arms)} losses on {base.data.name}",
        question=f"{asked} better than {titles[baseline]} on {base.data.name}, and in what?",
        unstated=_choices(base),
    )


def one_experiment(
    setting: Setting,
    arms: Sequence[Contender],
    seeds: Sequence[int],
    metrics: Mapping[str, Metric],
    baseline: str,
    *,
    analyses: Sequence[Analysis] = (),
    **facts: Any,
) -> Design:
    """Return a design that is not of the paper: one experiment, whose losses are the rows of a table of numbers."""
    trained = tuple(Arm(name=arm.name, loss=arm.loss) for arm in arms)
    experiment = Experiment(setting=setting, arms=trained, seeds=tuple(seeds), analyses=tuple(analyses))
    table = Table(
        baseline=baseline,
        rows=tuple(Line(name=arm.name, title=arm.title) for arm in arms),
        columns=tuple(Line(name=key, title=metric.title, metric=metric) for key, metric in metrics.items()),
        sources={arm.name: {key: Place(experiment=0, arm=arm.name) for key in metrics} for arm in arms},
    )
    return Design(experiments=(experiment,), table=table, **facts)


def _baseline(word: str | None, arms: Mapping[str, Contender]) -> str:
    """Return the arm that others are compared with: what was asked for, else label smoothing, else the first."""
    if word is not None and word in arms:
        return arms[word].name
    names = [arm.name for arm in arms.values() if arm.loss.name == ("ls" if word is None else word)]
    if word is None:
        return "ls" if "ls" in names else [*names, *(arm.name for arm in arms.values())][0]
    if len(names) != 1:
        raise ValueError(f"baseline must be one of the losses; got {word!r}. {hint(word, arms)}")
    return names[0]


def _fits(loss: str, task: Task) -> bool:
    try:
        task.prepare(build_loss(LossConfig(name=loss, **LOSS_OPTIONS[loss])))
    except ValueError:
        return False
    return True


def recipe_for(data: str) -> str:
    """Return the recipe for a data set: the quickest of the package's for it, else one that takes any images.

    Example:
        >>> recipe_for("digits"), recipe_for("folder:photos"), recipe_for("cifar10")
        ('digits_cnn', 'folder_finetune', 'cifar10_quick')
    """
    name = data.partition(":")[0]
    if name in (special := {"digits": "digits_cnn", "folder": "folder_finetune", "synthetic": "synthetic_compare"}):
        return special[name]
    fitting = [
        (recipe.endswith("_quick"), recipe)
        for recipe in list_recipes()
        if read_yaml(recipe_path(recipe)).get("data", {}).get("name") == name
    ]
    return max(fitting)[1] if fitting else "digits_cnn"


def _of_word(word: str, strengths: Strengths) -> Contender:
    """Return the arm of a loss that is written ``name`` or ``name:strength``."""
    name, colon, value = word.partition(":")
    LOSSES[name]  # raises an error with the nearest name if this one is unknown
    options, strength = dict(strengths.get(name, LOSS_OPTIONS.get(name, {}))), strength_of(name)
    if colon:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not strength or number < 0:
            raise ValueError(
                f"loss must be written name or name:strength; got {word!r}. Write for instance maxsup:0.2."
            )
        options[strength] = number
    has_own_strength = colon or strength in strengths.get(name, {})
    title = f"{name} {options[strength]:g}" if has_own_strength else name
    return Contender(re.sub(r"\W", "_", word), title, LossConfig(name=name, **options))


def _of_object(loss: LossConfig, others: Mapping[str, Contender]) -> Contender:
    """Return the arm of a loss with options; one without a strength gets the usual one."""
    LOSSES[loss.name]  # as above
    usual = LOSS_OPTIONS.get(loss.name, {})
    loss = LossConfig(name=loss.name, **{**usual, **loss.options})
    shown = {key: value for key, value in loss.options.items() if value != usual.get(key)}
    strength = shown.get(strength_of(loss.name))
    if isinstance(strength, int | float):
        del shown[strength_of(loss.name)]
    short = f"{loss.name} {strength:g}" if isinstance(strength, int | float) else loss.name
    names = [arm.name for arm in others.values()]
    count = sum(name.partition("__")[0] == loss.name for name in names)
    name = f"{loss.name}__{count + 1}" if loss.name in names else loss.name
    return Contender(name, short + LossConfig(name=loss.name, **shown).label.removeprefix(loss.name), loss)


def usual_numbers(recipe: Recipe) -> tuple[dict[str, Metric], list[Analysis]]:
    """Return the numbers and analyses of a comparison; known factors within classes are probed too."""
    if task_of_model(recipe.model.name).name == "segmentation":
        return MASK_METRICS, [Analysis(name="segmentation", what="segmentation")]
    names, metrics = ["calibration", "repair", "collapse", "logits"], dict(METRICS)
    if not recipe.data.val_share:
        # A temperature is fitted on images that were held out of training.
        names.remove("repair")
        metrics = {key: metric for key, metric in metrics.items() if metric.source != "repair"}
    if recipe.data.name == "synthetic":
        names.append("probe")
        for factor, title in _FACTORS.items():
            metrics[f"factor_{factor}"] = Metric(source="probe", name=f"r_squared_{factor}", title=f"probe: {title}")
    return metrics, [Analysis(name=name, what=name) for name in (*names, "projection", "gradcam")]


def _choices(recipe: Recipe) -> tuple[Choice, ...]:
    """Return what a reader must know to repeat the comparison."""
    optimizer, given = recipe.optimizer, recipe.model.pretrained
    weights = given if isinstance(given, str) else "published weights" if given else "from scratch"
    setting = [f"{recipe.model.name} ({weights}) on {recipe.data.name}"]
    setting += [f"images of {recipe.data.image_size} pixels"] if recipe.data.image_size else []
    setting += [f"{key}={value}" for key, value in recipe.data.options.items()]
    choices = {
        "Model and data": f"{', '.join(setting)}.",
        "Optimiser": f"{optimizer.name}, learning rate {optimizer.lr:g}, {counted(recipe.epochs, 'epoch')}, batches of "
        f"{recipe.batch_size}, schedule {recipe.schedule.name}.",
        "Pairs": "Under one seed all losses see the same initial weights, the same order of images and the same "
        "augmentation.",
        "Weights": "Those of the last epoch; nothing is chosen on the test images.",
    }
    return tuple(Choice(what=what, choice=choice) for what, choice in choices.items())
