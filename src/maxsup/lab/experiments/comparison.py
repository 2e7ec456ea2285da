"""``maxsup compare``: losses on one data set, as a study that is put together on the spot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from maxsup.core.errors import counted, hint
from maxsup.lab.core.config import LossConfig, Recipe
from maxsup.lab.core.recipes import list_recipes, load_recipe, read_yaml, recipe_path
from maxsup.lab.experiments.entries import AnalysisPlan, Entry, Metric, Scale, Unstated
from maxsup.lab.experiments.schema import ScaleName, Study
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
    "ece": Metric(name="ece"),
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


def comparison(
    recipe: str,
    losses: Sequence[LossChoice] | None = None,
    *,
    seeds: int | Sequence[int] = 6,
    baseline: str | None = None,
    overrides: Iterable[str] = (),
    strengths: Strengths | None = None,
) -> Study:
    """A study of some losses under one recipe; the arguments are those of :func:`maxsup.lab.experiments.compare`.

    ``strengths`` are options of losses by name, as tuning found them.

    Example:
        >>> study = comparison("digits_cnn", ["ce", "ls", "maxsup:0.2"])
        >>> study.baseline, [row.title for row in study.rows], len(study.scales["full"].seeds)
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
    base = load_recipe(str(recipe), words)
    if losses is None:
        losses = [loss for loss in LOSS_OPTIONS if _fits(loss, task_of_model(base.model.name))]
    rows: dict[str, Entry] = {}  # by the word for the loss, else by the name of the row
    for loss in losses:
        row = _word_row(loss, strengths or {}) if isinstance(loss, str) else _object_row(loss_config(loss), rows)
        rows[loss if isinstance(loss, str) else row.name] = row
    titles = {row.name: row.title for row in rows.values()}
    if len(rows) < 2:
        got = ", ".join(titles) or "none"
        raise ValueError(f"losses must be two or more; got {got}. Name for instance ce, ls and maxsup.")
    baseline = _baseline(baseline, rows)
    for row in rows.values():
        # Otherwise a loss that cannot be trained on this data would fail after the others have been trained.
        check_recipe(base.model_copy(update={"loss": row.loss}))
    metrics, analyses = measured(base)
    others = [title for name, title in titles.items() if name != baseline]
    asked = f"Is {others[0]}" if len(others) == 1 else f"Which of {', '.join(others)} is"
    note = f"{base.model.name} on {base.data.name}, {counted(base.epochs, 'epoch')}."
    return one_table(
        Scale(recipe=str(recipe), overrides=words, seeds=chosen_seeds, note=note),
        rows.values(),
        metrics,
        name="compare",
        title=f"{len(rows)} losses on {base.data.name}",
        question=f"{asked} better than {titles[baseline]} on {base.data.name}, and in what?",
        unstated=_choices(base),
        baseline=baseline,
        analyses=tuple(analyses),
    )


def one_table(scale: Scale, rows: Iterable[Entry], metrics: Mapping[str, Metric], **facts: Any) -> Study:
    """A study that is not of the paper: rows are losses, columns are numbers, and there is one scale."""
    columns = tuple(Entry(name=key, title=metric.title, metric=metric) for key, metric in metrics.items())
    scales: dict[ScaleName, Scale] = {"full": scale, "tiny": scale}
    return Study(
        **{"label": "", "stated": (), "unstated": (), **facts}, rows=tuple(rows), columns=columns, scales=scales
    )


def command_of(study: Study, scale: ScaleName) -> list[str]:
    """The words of the command that repeats a study or a comparison.

    Example:
        >>> study = comparison("digits_cnn", ["ls:0.2", "maxsup"], seeds=3, overrides=["epochs=2"])
        >>> " ".join(command_of(study, "full"))
        'maxsup compare --recipe digits_cnn --losses ls:0.2,maxsup:0.1 --baseline ls:0.2 --seeds 3 epochs=2'
    """
    if study.name != "compare":
        return ["maxsup", "study", "run", study.name, "--scale", scale]
    plan = study.scales[scale]
    seeds, losses = plan.seeds, {row.name: row.loss for row in study.rows if row.loss is not None}
    words = {name: _word(loss) for name, loss in losses.items()}
    if None in words.values():  # options that a word cannot express
        given: dict[str, Any] = {"recipe": plan.recipe, "losses": [loss.model_dump() for loss in losses.values()]}
        given |= {"baseline": study.baseline, "seeds": list(seeds), "overrides": list(plan.overrides)}
        arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
        return ["python", "-c", f"from maxsup.lab.experiments import compare; compare({arguments}).report()"]
    count = str(len(seeds)) if seeds == tuple(range(len(seeds))) else ",".join(map(str, seeds))
    losses_text, baseline = ",".join(map(str, words.values())), str(words[study.baseline])
    options = ["--recipe", plan.recipe, "--losses", losses_text, "--baseline", baseline, "--seeds", count]
    return ["maxsup", "compare", *options, *plan.overrides]


def _word(loss: LossConfig) -> str | None:
    """A loss as the command line writes it; None if it has options that cannot be written there."""
    strength = strength_of(loss.name)
    value = loss.options.get(strength)
    others = {key: option for key, option in loss.options.items() if key != strength}
    usual = {key: option for key, option in LOSS_OPTIONS.get(loss.name, {}).items() if key != strength}
    if others != usual or not isinstance(value, int | float | None):
        return None
    return loss.name if value is None else f"{loss.name}:{value:g}"


def _baseline(word: str | None, rows: Mapping[str, Entry]) -> str:
    """The row that others are compared with: the one that was asked for, else label smoothing, else the first."""
    if word is not None and word in rows:
        return rows[word].name
    names = [row.name for row in rows.values() if row.loss and row.loss.name == ("ls" if word is None else word)]
    if word is None:
        return "ls" if "ls" in names else [*names, *(row.name for row in rows.values())][0]
    if len(names) != 1:
        raise ValueError(f"baseline must be one of the losses; got {word!r}. {hint(word, rows)}")
    return names[0]


def _fits(loss: str, task: Task) -> bool:
    try:
        task.prepare(build_loss(LossConfig(name=loss, **LOSS_OPTIONS[loss])))
    except ValueError:
        return False
    return True


def recipe_for(data: str) -> str:
    """The recipe for a data set: the quickest of the package's for it, else one that takes any images.

    Example:
        >>> recipe_for("digits"), recipe_for("folder:photos"), recipe_for("cifar10")
        ('digits_cnn', 'folder_finetune', 'cifar10_quick')
    """
    name = data.partition(":")[0]
    if name in (special := {"folder": "folder_finetune", "synthetic": "synthetic_compare"}):
        return special[name]
    fitting = [
        (recipe.endswith("_quick"), recipe)
        for recipe in list_recipes()
        if read_yaml(recipe_path(recipe)).get("data", {}).get("name") == name
    ]
    return max(fitting)[1] if fitting else "digits_cnn"


def _word_row(word: str, strengths: Strengths) -> Entry:
    """The row of a loss that is written ``name`` or ``name:strength``."""
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
    return Entry(name=re.sub(r"\W", "_", word), title=title, loss=LossConfig(name=name, **options))


def _object_row(loss: LossConfig, others: Mapping[str, Entry]) -> Entry:
    """The row of a loss with options; one without a strength gets the usual one."""
    LOSSES[loss.name]  # as above
    usual = LOSS_OPTIONS.get(loss.name, {})
    loss = LossConfig(name=loss.name, **{**usual, **loss.options})
    strength, criterion = strength_of(loss.name), build_loss(loss)
    shown = {key: value for key, value in loss.options.items() if value != usual.get(key)}
    if criterion.schedule is not None:
        shown[strength] = criterion.schedule
    words = [
        f"{value:g}" if key == strength and isinstance(value, int | float) else f"{key}={value}"
        for key, value in shown.items()
    ]
    names = [row.name for row in others.values()]
    count = sum(name.partition("__")[0] == loss.name for name in names)
    name = f"{loss.name}__{count + 1}" if loss.name in names else loss.name
    return Entry(name=name, title=" ".join([loss.name, *words]), loss=loss)


def measured(recipe: Recipe) -> tuple[dict[str, Metric], list[AnalysisPlan]]:
    """The numbers and analyses of a comparison; known factors within classes are probed too."""
    if task_of_model(recipe.model.name).name == "segmentation":
        return MASK_METRICS, [AnalysisPlan(name="segmentation", what="segmentation")]
    names, metrics = ["calibration", "collapse", "logits"], dict(METRICS)
    if recipe.data.name == "synthetic":
        names.append("probe")
        for factor, title in _FACTORS.items():
            metrics[f"factor_{factor}"] = Metric(source="probe", name=f"r_squared_{factor}", title=f"probe: {title}")
    return metrics, [AnalysisPlan(name=name, what=name) for name in (*names, "projection", "gradcam")]


def _choices(recipe: Recipe) -> tuple[Unstated, ...]:
    """What a reader must know to repeat the comparison."""
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
    return tuple(Unstated(what=what, choice=choice) for what, choice in choices.items())
