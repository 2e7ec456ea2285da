"""What is learnt from images, behind one interface: everything above asks the task, and never which one it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from maxsup.core.registry import Registry
from maxsup.lab.core.config import ModelConfig, Recipe
from maxsup.lab.data import BatchPlan, DataBundle, Pipeline, Split
from maxsup.lab.data.registry import TASK_PACKAGE
from maxsup.losses import RegularizedLoss

Groups = Mapping[str, Sequence[int]]
"""Classes by name of their group."""


class Task(Protocol):
    """A kind of data with the networks, batches and numbers that belong to it.

    Attributes:
        name: The name in ``TASKS``, which splits carry too.
        main_number: The number by which epochs, trials and runs are chosen; higher is better.
        progress_numbers: What the line of an epoch shows of validation: the name of each number by its word there.
        monitored: The logits and labels that the monitor looks at, as an index.
        has_crop_settings: Whether the crop and interpolation of ``augment`` apply.
        extra: What has to be installed with the package.
        hub_name: What model hubs call the task.
        creator: The public function that creates a network, by its dotted name.
        creator_settings: Settings of ``model`` that it takes besides name, pretrained and options.
    """

    name: str
    main_number: str
    progress_numbers: Mapping[str, str]
    monitored: tuple[Any, ...]
    has_crop_settings: bool
    extra: str
    hub_name: str
    creator: str
    creator_settings: tuple[str, ...]

    def check_model(self, model: ModelConfig, *, has_data: bool) -> None:
        """Raise unless a network of this task meets data of this task; ``has_data`` says whether the data is."""

    def check_settings(self, recipe: Recipe) -> None:
        """Raise if a recipe of this task has a setting that has no effect, or lacks one."""

    def check_unused(self, recipe: Recipe) -> None:
        """Raise if a recipe of another task has settings of this one."""

    def prepare(self, criterion: RegularizedLoss) -> None:
        """Adapt a loss to the labels; raise for one that cannot learn from them."""

    def least_images(self, recipe: Recipe) -> int:
        """Return how many images each process must have in a training batch."""

    def has_model(self, name: str) -> bool:
        """Return whether a network of that name belongs to this task alone."""

    def describe_models(self) -> list[dict[str, str]]:
        """Return name, description and source of each network of this package."""

    def pretrained_network(self, model: ModelConfig) -> str:
        """Return the name of the network that published weights are for."""

    def create_network(
        self,
        model: ModelConfig,
        num_classes: int,
        *,
        in_channels: int = 3,
        image_size: int | None = None,
        pretrained: bool | str = False,
    ) -> nn.Module:
        """Create the network of a recipe, with the weights that ``pretrained`` names."""

    def create_pipeline(self, recipe: Recipe, split: Split, plan: BatchPlan, bad_files: Path | None) -> Pipeline:
        """Make the batches of a split."""

    def class_groups(self, bundle: DataBundle) -> Groups:
        """Return groups of classes whose accuracy says more than that of all; empty if there are none."""

    def evaluate(
        self,
        recipe: Recipe,
        model: nn.Module,
        pipeline: Pipeline,
        *,
        num_classes: int,
        split: str,
        groups: Groups | None = None,
        is_sharded: bool = False,
        on_batch: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Return the plain numbers of a split, the main number among them.

        With ``is_sharded`` each process has its own part of the split. ``on_batch`` is called after each batch.
        """

    def summarise(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Return the most important numbers of a split as people read them, by name."""

    def describe(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Return all numbers of a split as people read them, by name."""


TASKS: Registry[Task] = Registry("task", package=TASK_PACKAGE)

DEFAULT = "classification"
"""The task of every network that no other task claims: names of other libraries are not registered here."""


def task_of_model(name: str) -> Task:
    """Return the task of a network.

    Example:
        >>> task_of_model("small_cnn").main_number, task_of_model("upernet").main_number
        ('accuracy', 'miou')
    """
    return next((task for task in _others() if task.has_model(name)), TASKS[DEFAULT])


def task_of_numbers(numbers: Mapping[str, Any]) -> Task:
    """Return the task that numbers of a split are of; pixels have an accuracy too."""
    return next((task for task in _others() if task.main_number in numbers), TASKS[DEFAULT])


def check_model(model: ModelConfig, data_task: str) -> None:
    """Raise unless the network of a recipe can learn from data of a task."""
    for name in TASKS:
        TASKS[name].check_model(model, has_data=name == data_task)


def check_unused(recipe: Recipe, task: str) -> None:
    """Raise if a recipe has settings of another task than its own."""
    for name in TASKS:
        if name != task:
            TASKS[name].check_unused(recipe)


def _others() -> Iterator[Task]:
    return (TASKS[name] for name in TASKS if name != DEFAULT)
