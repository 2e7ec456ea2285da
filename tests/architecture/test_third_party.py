"""The loss library costs torch and nothing else."""

import json
import subprocess
import sys

LIBRARY = (
    "import maxsup; maxsup.MaxSupLoss, maxsup.functional, maxsup.schedules, maxsup.monitor; "
    "[maxsup.losses.LOSSES[name] for name in maxsup.list_losses()]"
)


def packages_loaded_by(statements: str, *, after: str = "pass") -> set[str]:
    """Top-level packages outside the standard library that ``statements`` add to a fresh interpreter."""
    script = f"""
import json, sys
{after}
before = set(sys.modules)
{statements}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)} - set(sys.stdlib_module_names)


def test_the_loss_library_loads_torch_and_what_torch_loads() -> None:
    # Further parts of torch are fine: they are not new packages.
    assert packages_loaded_by(LIBRARY, after="import torch") - {"torch"} == {"maxsup"}


def test_a_further_package_would_be_seen() -> None:
    assert packages_loaded_by("import iniconfig", after="import packaging") == {"iniconfig"}


def test_import_maxsup_alone_does_not_load_torch() -> None:
    assert packages_loaded_by("import maxsup; maxsup.__version__") == {"maxsup"}


def test_the_command_line_starts_without_torch_and_rich() -> None:
    loaded = packages_loaded_by("import maxsup.cli.app")
    assert {"maxsup", "typer"} <= loaded
    assert loaded.isdisjoint({"numpy", "rich", "torch"})
