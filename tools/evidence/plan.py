"""What is run and in which order, read from ``docs/evidence/second/experiments.yaml``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict

SECOND = Path(__file__).parents[2] / "docs" / "evidence" / "second"
SEEDS_AT_ONCE = 20
"""How many seeds of a head are trained side by side."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Strengthened(_Entry):
    """A strength that rises from ``start`` to ``end``."""

    schedule: Literal["linear"]
    start: float
    end: float


class Arm(_Entry):
    """A loss, its options, and what it multiplies the learning rate of the pool with.

    ``per_class`` multiplies the strength by ``(K - 1) / K``.
    """

    loss: str
    alpha: float | Strengthened | None = None
    margin: float | None = None
    gain: float | None = None
    per_class: bool = False
    rate: float = 1.0

    @property
    def name(self) -> str:
        """How tables call it: ``maxsup alpha=0.1 rate=2``."""
        words = [self.loss]
        if isinstance(self.alpha, Strengthened):
            words.append(f"alpha={self.alpha.start:g}..{self.alpha.end:g}")
        elif self.alpha is not None:
            words.append(f"alpha={self.alpha:g}")
        words += [f"{key}={value:g}" for key in ("margin", "gain") if (value := getattr(self, key)) is not None]
        if self.per_class:
            words.append("per_class")
        return " ".join(words + ([f"rate={self.rate:g}"] if self.rate != 1 else []))

    def loss_config(self, num_classes: int) -> dict[str, Any]:
        """Name and options, as ``maxsup.create_loss`` and recipes take them."""
        config = self.model_dump(include={"loss", "alpha", "margin", "gain"}, exclude_none=True)
        if self.per_class:
            config["alpha"] *= (num_classes - 1) / num_classes
        return {"name": config.pop("loss"), **config}


class HeadChoice(_Entry):
    """A classifier on frozen features."""

    kind: Literal["linear", "hidden"]
    width: int
    lr: float

    @property
    def name(self) -> str:
        """How files and tables call it."""
        return f"{self.kind}-{self.width or 'all'}"


class Pool(_Entry):
    """Runs that differ in loss, learning rate and seed alone."""

    experiment: Literal["A", "B", "C", "D", "E"]
    kind: Literal["images", "heads", "translation"]
    num_classes: int
    recipe: str | None = None
    data: str | None = None
    lr: float | None = None
    overrides: tuple[str, ...] = ()


class Stage(_Entry):
    """Runs that are made before those of the next stage; ``seeds`` are the first and the last."""

    pools: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: tuple[int, int]


class Plan(_Entry):
    """All of the file."""

    arms: dict[str, tuple[Arm, ...]]
    heads: tuple[HeadChoice, ...]
    pools: dict[str, Pool]
    stages: tuple[Stage, ...]

    def stage_arms(self, stage: Stage) -> list[Arm]:
        """The arms of a stage, each once."""
        return list(dict.fromkeys(arm for name in stage.arms for arm in self.arms[name]))

    def pool_arms(self, pool: str) -> list[Arm]:
        """All arms of a pool in the order in which they are run."""
        found = (arm for stage in self.stages if pool in stage.pools for arm in self.stage_arms(stage))
        return list(dict.fromkeys(found))

    def seeds(self, pool: str, arm: str) -> set[int]:
        """The seeds under which an arm of a pool is run."""
        stages = [stage for stage in self.stages if pool in stage.pools]
        return {
            seed
            for stage in stages
            if arm in {own.name for own in self.stage_arms(stage)}
            for seed in range(stage.seeds[0], stage.seeds[1] + 1)
        }


class Run(NamedTuple):
    """What names one training."""

    pool: str
    head: str | None
    arm: str
    seed: int


@dataclass(frozen=True)
class Task:
    """What one process does: one run, or for heads one capacity with all arms of a stage and a block of seeds."""

    pool: str
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    head: HeadChoice | None = None

    @property
    def name(self) -> str:
        """A file name that no other task has."""
        what = self.head.name if self.head else self.arms[0].name.replace(" ", "_")
        stage = "" if self.head is None else f"-{self.arms[0].name.replace(' ', '_')}"
        return f"{self.pool}-{what}{stage}-s{self.seeds[0]}"

    @property
    def runs(self) -> list[Run]:
        """Its runs, arm by arm."""
        head = self.head.name if self.head else None
        return [Run(self.pool, head, arm.name, seed) for arm in self.arms for seed in self.seeds]


def load_plan(path: Path = SECOND / "experiments.yaml") -> Plan:
    """The plan, checked."""
    plan = Plan.model_validate(yaml.safe_load(path.read_text()))
    for stage in plan.stages:
        for name in stage.pools:
            plan.pools[name]  # an unknown name is an error before anything is run
    return plan


def blocks(plan: Plan) -> Iterator[Task]:
    """Everything in order, all arms of a stage together: what one file of the collected results holds."""
    for stage in plan.stages:
        arms, (first, last) = tuple(plan.stage_arms(stage)), stage.seeds
        heads = [name for name in stage.pools if plan.pools[name].kind == "heads"]
        runs = [name for name in stage.pools if plan.pools[name].kind != "heads"]
        for start in range(first, last + 1, SEEDS_AT_ONCE):
            seeds = tuple(range(start, min(start + SEEDS_AT_ONCE, last + 1)))
            for pool in heads:
                yield from (Task(pool, seeds, arms, head) for head in plan.heads)
            for seed in seeds:
                yield from (Task(pool, (seed,), arms) for pool in runs)


def tasks(plan: Plan) -> Iterator[Task]:
    """Everything, in the order in which it is to be run."""
    for block in blocks(plan):
        if block.head is not None:
            yield block
        else:
            yield from (Task(block.pool, block.seeds, (arm,)) for arm in block.arms)
