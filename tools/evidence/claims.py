"""The claims that are judged, read from ``docs/evidence/second/claims.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from tools.evidence.plan import SECOND, Plan


class Claim(BaseModel):
    """A number, the contrast that is taken of it within a seed, and the sign that the claim has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    family: Literal["A", "B", "C", "D"]
    pools: tuple[str, ...]
    contrast: Literal["strength", "confidence", "rate", "slope", "intercept", "arms"]
    number: str
    direction: Literal["higher", "lower", "equal"]
    margin: float
    factor: float = 1.0
    unit: str = ""
    heads: tuple[str, ...] = ()
    claim: str = "maxsup alpha=0.1"
    than: str = "ls alpha=0.1"

    @model_validator(mode="after")
    def _names_arms_where_it_compares_them(self) -> Claim:
        if self.contrast != "arms" and {"claim", "than"} & self.model_fields_set:
            raise ValueError(f"claim and than must go with contrast=arms; got contrast={self.contrast}. Drop them.")
        return self


def load_claims(plan: Plan, path: Path = SECOND / "claims.yaml") -> dict[str, Claim]:
    """The claims by name, checked against the plan."""
    claims = {name: Claim.model_validate(values) for name, values in yaml.safe_load(path.read_text()).items()}
    heads = {head.name for head in plan.heads}
    for name, claim in claims.items():
        experiments = {plan.pools[pool].experiment for pool in claim.pools}
        if experiments != {claim.family} or not set(claim.heads) <= heads:
            raise ValueError(f"{name} must name pools of its family and heads of the plan; got {claim}.")
    return claims
