"""Cards of runs: written in this process, and loaded as they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from maxsup.lab.cli import main


def exported(run: Path, *words: str) -> int:
    """Exit code of ``maxsup export RUN --to card`` with further words."""
    with pytest.raises(SystemExit) as leaving:
        main(["export", str(run), "--to", "card", *words])
    return int(leaving.value.code or 0)


def loaded(card: Path, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """What the Python of a card makes, in its folder."""
    [code] = re.findall(r"```python\n(.+?)```", (card / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(card)
    names: dict[str, torch.nn.Module] = {}
    exec(code, names)
    return names["model"]
