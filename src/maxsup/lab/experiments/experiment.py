"""An experiment: one setting, trained with some losses under some seeds. It says which runs there are, nothing else."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic import Field, model_validator

from maxsup.lab.core.config import LossConfig, Recipe, Section
from maxsup.lab.core.recipes import load_recipe, recipe_path

Name = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]

EMBEDDED = ("digits", "synthetic", "synthetic_masks")
"""Data sets that come with the package's dependencies and are always available."""


class DataChoice(Section):
    """Data to train or to analyse on; ``options`` and ``image_size`` are those of a recipe's ``data``.

    ``overrides`` apply to runs that train on this choice, for instance fewer epochs where there are more images.
    """

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    image_size: int | None = Field(default=None, gt=0)
    overrides: tuple[str, ...] = ()

    @property
    def is_embedded(self) -> bool:
        """Whether it needs no file."""
        return self.name in EMBEDDED


class Analysis(Section):
    """An analysis of every run: ``what`` is its registered name, ``name`` what metrics call its result.

    ``data`` is the set to analyse on, if not the run's own: the target of a probe, corrupted images.
    """

    name: Name
    what: str
    split: str = "test"
    options: dict[str, Any] = Field(default_factory=dict)
    data: DataChoice | None = None


class Setting(Section):
    """What the runs of an experiment share: a recipe and changes to it, in which ``{seed}`` is the seed of the run.

    Runs of a ``pool`` serve several studies.
    """

    recipe: str
    overrides: tuple[str, ...] = ()
    pool: Name | None = None

    def shared_recipe(self, seed: int) -> Recipe:
        """The recipe of a seed, whatever the loss."""
        return read_recipe(self.recipe, tuple(word.replace("{seed}", str(seed)) for word in self.overrides))


class Arm(Section):
    """A loss of an experiment, and what its runs are called."""

    name: Name
    loss: LossConfig


class ArmRun(NamedTuple):
    """One run of an experiment."""

    arm: str
    seed: int
    recipe: Recipe


class Experiment(Section):
    """A setting, the losses that are trained in it, the seeds of each loss, and the analyses of every run.

    Runs of one seed differ in the loss alone: the seed decides initial weights, order of the data and augmentation.
    """

    setting: Setting
    arms: tuple[Arm, ...]
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    analyses: tuple[Analysis, ...] = ()

    @model_validator(mode="after")
    def _is_sound(self) -> Experiment:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must differ; got {list(self.seeds)}. A seed counts once.")
        return self

    def runs(self) -> list[ArmRun]:
        """Every loss with every seed, seed by seed, so that an interrupted experiment has complete pairs.

        Example:
            >>> arms = [{"name": name, "loss": {"name": name}} for name in ("ce", "ls")]
            >>> experiment = Experiment(setting={"recipe": "digits_cnn"}, arms=arms, seeds=(0, 1))
            >>> [(run.recipe.loss.name, run.recipe.seed) for run in experiment.runs()]
            [('ce', 0), ('ls', 0), ('ce', 1), ('ls', 1)]
        """
        return [
            ArmRun(arm.name, seed, self.setting.shared_recipe(seed).changed(loss=arm.loss, seed=seed))
            for seed in self.seeds
            for arm in self.arms
        ]


def read_recipe(name: str, overrides: tuple[str, ...]) -> Recipe:
    """The recipe under a name with overrides, validated once as long as its file does not change."""
    return _checked(name, overrides, recipe_path(name).stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _checked(name: str, overrides: tuple[str, ...], changed: int) -> Recipe:
    return load_recipe(name, overrides)
