"""What makes a run repeatable: seeds that are a function of position, and a record of the environment."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from maxsup import __version__

_PACKAGES = ("torch", "torchvision", "timm", "accelerate", "numpy", "safetensors")


def mixed_seed(*parts: int | str) -> int:
    """A seed that depends on all parts and on nothing else.

    Example:
        >>> mixed_seed(0, "step", 3), mixed_seed(0, "step", 3) == mixed_seed(0, "step", 4)
        (7443614247257108745, False)
    """
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def set_deterministic(is_wanted: bool) -> None:
    """Choose GPU kernels that give the same bits every time, or else the fastest ones; a CPU repeats itself anyway."""
    import torch

    torch.backends.cudnn.benchmark = not is_wanted
    torch.backends.cudnn.deterministic = is_wanted
    if torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(is_wanted, warn_only=True)


def environment() -> dict[str, Any]:
    """Versions, machine, threads and commit, for ``env.json``."""
    import torch

    return {
        "maxsup": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "num_cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "num_processes": int(os.environ.get("WORLD_SIZE", "1")),
        "git_commit": _git_commit(),
        "command": sys.argv,
    }


def changes_that_matter(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Differences between two records that may change the last bits of a result.

    Example:
        >>> changes_that_matter({"threads": 1, "command": ["a"]}, {"threads": 2, "command": ["b"]})
        ['threads 1 -> 2']
    """
    keys = ("maxsup", "packages", "cpu", "device", "threads", "num_processes")
    return [f"{key} {before.get(key)} -> {now.get(key)}" for key in keys if before.get(key) != now.get(key)]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    """As Linux names it, else as Python does."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else platform.processor()


def _git_commit() -> str | None:
    """Commit of the source this package runs from; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
