"""The claims that are judged, read from ``docs/evidence/second/claims.yaml``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, model_validator
from typing_extensions import Self

from tools.evidence.plan import SECOND, Plan

ARRAYS = {
    "gap": ("confidence",),
    "confidence_wrong": ("confidence",),
    "aurc": ("confidence",),
    "ece": ("confidence",),
    "confidence_wrong_after": ("cooled_confidence",),
    "ece_after": ("cooled_confidence",),
    "nll_after": ("cooled_truth",),
    "bleu": ("bleu",),
}
"""What numbers are made of beside whether a prediction is right; those of training features have no test images."""


class Contrast(BaseModel):
    """A number, and which difference of it is taken within a seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pools: tuple[str, ...]
    contrast: Literal["strength", "confidence", "rate", "slope", "intercept", "arms"]
    number: str
    factor: float = 1.0
    heads: tuple[str, ...] = ()
    claim: str = "maxsup alpha=0.1"
    than: str = "ls alpha=0.1"

    @model_validator(mode="after")
    def _names_arms_where_it_compares_them(self) -> Self:
        if self.contrast != "arms" and {"claim", "than"} & self.model_fields_set:
            raise ValueError(f"claim and than must go with contrast=arms; got contrast={self.contrast}. Drop them.")
        return self

    def heads_of(self, plan: Plan, pool: str) -> list[str | None]:
        """The heads that it averages over: all of the plan where it names none, and none where runs are images."""
        if plan.pools[pool].kind != "heads":
            return [None]
        return [head.name for head in plan.heads if not self.heads or head.name in self.heads]

    def arms(self, plan: Plan, pool: str) -> tuple[list[str], list[str]]:
        """The arms on the side of the claim and on the other side, in the order of the plan."""
        if self.contrast in ("strength", "slope", "intercept", "arms"):
            return [self.claim], [self.than]
        plain = [arm for arm in plan.pool_arms(pool) if isinstance(arm.alpha, float) and not arm.per_class]
        if self.contrast == "confidence":
            chosen = [arm for arm in plain if arm.rate == 1]
        else:
            chosen = [arm for arm in plain if arm.alpha == 0.1]
        maxsup, ls = ([arm.name for arm in chosen if arm.loss == loss] for loss in ("maxsup", "ls"))
        return maxsup, ls

    @property
    def arrays(self) -> set[str]:
        """What has to be kept of every test image to resample its number."""
        return {"is_right", *ARRAYS.get(self.number, ())}


class Claim(Contrast):
    """A contrast, the sign that is claimed of it, and what counts as no difference."""

    says: str
    family: Literal["A", "B", "C", "D"]
    direction: Literal["higher", "lower", "equal"]
    margin: float
    unit: str = ""


def kept_arrays(plan: Plan, claims: Iterable[Claim]) -> dict[tuple[str, str | None, str], set[str]]:
    """For each pool, head and arm what is kept of every test image; the right ones are kept of all."""
    kept: dict[tuple[str, str | None, str], set[str]] = {}
    for claim in claims:
        for pool in claim.pools:
            for head in claim.heads_of(plan, pool):
                for arm in chain(*claim.arms(plan, pool)):
                    kept.setdefault((pool, head, arm), set()).update(claim.arrays)
    return kept


def load_claims(plan: Plan, path: Path = SECOND / "claims.yaml") -> dict[str, Claim]:
    """The claims by name, checked against the plan."""
    claims = {name: Claim.model_validate(values) for name, values in yaml.safe_load(path.read_text()).items()}
    heads = {head.name for head in plan.heads}
    for name, claim in claims.items():
        experiments = {plan.pools[pool].experiment for pool in claim.pools}
        if experiments != {claim.family} or not set(claim.heads) <= heads:
            raise ValueError(f"{name} must name pools of its family and heads of the plan; got {claim}.")
    return claims
