"""A run as a folder for a model hub: weights, model card, recipe, environment and numbers.

::

    README.md               the model card: metadata for the Hugging Face hub, then Markdown
    model.safetensors       the weights
    recipe.yaml             the recipe, for maxsup train
    results.json            all final numbers
    environment.json        versions and machine
    class_names.txt         one per line in the order of the outputs, if the data is available
    .eval_results/*.yaml    the main number for the hub's page of a data set, if one is given

Only the last name of each path of the machine is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxsup.core.checks import check_choice
from maxsup.core.errors import MaxsupError
from maxsup.lab.core.config import LossConfig, Recipe
from maxsup.lab.core.files.reading import as_written, read_json
from maxsup.lab.core.files.records import RunSummary, as_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.files.storage import json_text, make_folder, replace_bytes
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.reports.blocks import anchor, shown
from maxsup.lab.reports.folders import drop_paths
from maxsup.lab.reports.page import TEMPLATES
from maxsup.lab.reports.tables import markdown_text
from maxsup.lab.tasks import Task, task_of_numbers
from maxsup.lab.training.builders import build_data
from maxsup.lab.training.reading import WEIGHTS
from maxsup.lab.training.state.checkpoint import checkpoint_values
from maxsup.losses import LOSSES
from maxsup.metrics.facts import fact

_NUMBERS = (
    "miou", "accuracy", "class_accuracy", "accuracy_top5",
    "nll", "brier", "ece", "confidence_correct", "confidence_wrong",
)  # fmt: skip
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class _Shared:
    """A finished run without paths of the machine."""

    name: str
    recipe: dict[str, Any]
    numbers: Mapping[str, Any]
    trained_on: Mapping[str, Any]
    environment: Mapping[str, Any]
    weights: str
    class_names: Sequence[str]
    image_size: int | None

    @property
    def task(self) -> Task:
        return task_of_numbers(self.numbers)


def write_card(
    run: Path, output: Path, *, weights: str = "last", dataset: str | None = None, licence: str | None = None
) -> list[Path]:
    """Write the folder of a finished run; nothing is sent anywhere.

    ``dataset`` is the test data on the hub, ``owner/name``; ``licence`` that of the weights, as the hub writes it.
    """
    check_choice("weights", weights, WEIGHTS)
    if dataset is not None and not _HUB_ID.fullmatch(dataset):
        raise ValueError(
            f"dataset must be OWNER/NAME as on the hub; got {dataset!r}. Write uoft-cs/cifar10 for instance."
        )
    source = RunDir(run).require()
    if not source.summary.is_file():
        raise MaxsupError(
            f"run must be finished before it is shared; got {str(run)!r}, which has no summary.json yet. "
            "Give the command that trained it again: it goes on where it stopped.",
            code="run-unfinished",
        )
    file, summary = source.check(source.weights(weights)), read_json(source.summary)
    tested = as_record(RunSummary, summary, source.summary).test.get(weights) or {}
    with as_written(source.summary):
        numbers = {key: value for key, value in tested.items() if value is not None}
        environment = drop_paths(read_json(source.env))
        trained_on = checkpoint_values(file.parent)["data"]
        recipe = run_recipe(source)
        class_names, size = known_from_data(recipe, int(trained_on["num_classes"]))
        public = drop_paths(recipe.model_dump(mode="json"))
        public["data"]["root"] = None
        name = run.resolve().name
        shared = _Shared(name, public, numbers, trained_on, environment, weights, class_names, size)
        texts = {
            "README.md": f"---\n{_yaml(_metadata(shared, dataset, licence))}---\n\n{_card(shared)}",
            "recipe.yaml": _yaml(shared.recipe),
            "results.json": json_text(drop_paths(summary), indent=2) + "\n",
            "environment.json": json_text(environment, indent=2) + "\n",
        }
        if class_names:
            texts["class_names.txt"] = "".join(" ".join(name.split()) + "\n" for name in class_names)
        if dataset is not None:
            texts[f".eval_results/{anchor(dataset)}.yaml"] = _yaml([_eval_result(shared, dataset)])
    files = {output / path: text.encode() for path, text in texts.items()} | {output / file.name: file.read_bytes()}
    for path, content in files.items():
        make_folder(path.parent)
        replace_bytes(path, content)
    return list(files)


def known_from_data(recipe: Recipe, num_classes: int) -> tuple[Sequence[str], int | None]:
    """Class names and image size; runs do not store them, so they are missing if the data is gone."""
    size = recipe.data.image_size
    try:
        bundle = build_data(recipe.model_copy(update={"data": recipe.data.model_copy(update={"download": False})}))
    except (ImportError, MaxsupError, OSError, ValueError):
        return (), size
    if bundle.num_classes != num_classes:
        return (), size
    return bundle.class_names, size or (bundle.image_shape[1] if bundle.image_shape else None)


def _yaml(value: Any) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def _metadata(shared: _Shared, dataset: str | None, licence: str | None) -> dict[str, Any]:
    """The metadata that the hub reads above the card."""
    data, task = shared.recipe["data"]["name"], shared.task.hub_name
    known = [key for key in _NUMBERS if key in shared.numbers]
    metrics = [{"type": key, "name": fact(key).full_name, "value": shared.numbers[key]} for key in known]
    results = {
        "task": {"type": task},
        "dataset": {"type": dataset or data, "name": data, "split": "test"},
        "metrics": metrics,
    }
    return {
        "library_name": "maxsup",
        **({"license": licence} if licence else {}),
        "pipeline_tag": task,
        "tags": ["pytorch", "safetensors", shared.recipe["loss"]["name"]],
        **({"datasets": [dataset]} if dataset else {}),
        "metrics": [shared.task.main_number],
        "model-index": [{"name": shared.name, "results": [results]}],
    }


def _eval_result(shared: _Shared, dataset: str) -> dict[str, Any]:
    key, num = shared.task.main_number, shared.numbers["n"]
    return {
        "dataset": {"id": dataset, "task_id": "default"},
        "value": round(100 * shared.numbers[key], 2),
        "notes": f"{fact(key).full_name} in percent, test split, {num} images, {shared.weights} weights",
    }


def _card(shared: _Shared) -> str:
    recipe, trained_on = shared.recipe, shared.trained_on
    loss = LossConfig(**recipe["loss"])
    rows = [(fact(key).full_name, shared.numbers[key]) for key in _NUMBERS if key in shared.numbers]
    given, task = recipe["model"]["pretrained"], shared.task
    package, _, creator = task.creator.rpartition(".")
    template = (TEMPLATES / "card.md").read_text(encoding="utf-8")
    return template.format(
        run=shared,
        recipe=recipe,
        record={"maxsup": None, "python": None, "device": None, **shared.environment},
        torch=shared.environment.get("packages", {}).get("torch"),
        name=markdown_text(shared.name),
        model=markdown_text(recipe["model"]["name"]),
        start=markdown_text(given) if isinstance(given, str) else "from published weights" if given else "from scratch",
        data=markdown_text(recipe["data"]["name"]),
        loss=loss.label,
        formula=LOSSES.facts(loss.name)["formula"].replace("|", "\\|"),
        source=LOSSES.facts(loss.name)["source"],
        rows="\n".join(f"| {title} | {shown(value, 4)} |" for title, value in rows),
        **{key: ", ".join(f"{value:.4g}" for value in trained_on[key]) for key in ("mean", "std")},
        num_channels=len(trained_on["mean"]),
        order="`class_names.txt`" if shared.class_names else "the classes of the data",
        extra=task.extra,
        package=package,
        create=creator,
        settings="".join(f"    {key}=recipe.model.{key},\n" for key in task.creator_settings),
    )
