from types import SimpleNamespace
from typing import Any

import pytest

from maxsup.lab.core.config import Recipe
from maxsup.lab.experiments.summarize import _unrepeatable


def runs(*deterministic: bool) -> Any:
    recipes = [Recipe(deterministic=flag) for flag in deterministic]
    return SimpleNamespace(runs={str(place): SimpleNamespace(recipe=recipe) for place, recipe in enumerate(recipes)})


@pytest.mark.parametrize(
    ("flags", "device", "said"),
    [
        ((True, True), "NVIDIA A100", {}),
        ((False, False, True), "NVIDIA A100", {"kernels": "not deterministic in 2 of 3 runs (deterministic=false)"}),
        ((False,), "cpu", {}),
    ],
)
def test_a_summary_says_how_many_runs_would_not_repeat_their_bits(
    flags: tuple[bool, ...], device: str, said: dict[str, str]
) -> None:
    assert _unrepeatable(runs(*flags), device) == said
