"""The loss library costs torch and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

HEAVY = {"accelerate", "datasets", "timm", "torchvision", "transformers"}

LIBRARY = (
    "import maxsup; maxsup.MaxSupLoss, maxsup.functional, maxsup.schedules, maxsup.monitor; "
    "[maxsup.losses.LOSSES[name] for name in maxsup.list_losses()]"
)


def modules_loaded_by(statements: str, *, after: str = "pass") -> set[str]:
    """Modules that ``statements`` add to a fresh interpreter."""
    script = f"""
import json, sys
{after}
before = set(sys.modules)
{statements}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def packages_loaded_by(statements: str, *, after: str = "pass") -> set[str]:
    """Top-level packages outside the standard library that ``statements`` add to a fresh interpreter."""
    found = modules_loaded_by(statements, after=after)
    return {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names)


def rooms(modules: set[str]) -> set[str]:
    """Folders of the library and of the laboratory that the modules are in."""
    names = [name.split(".")[1:] for name in modules if name.startswith("maxsup.")]
    return {"/".join(parts[: 1 + (parts[0] == "lab")]) for parts in names} - {"lab"}


def test_the_loss_library_loads_torch_and_what_torch_loads() -> None:
    # Further parts of torch are fine: they are not new packages.
    assert packages_loaded_by(LIBRARY, after="import torch") - {"torch"} == {"maxsup"}


def test_a_further_package_would_be_seen() -> None:
    assert packages_loaded_by("import iniconfig", after="import packaging") == {"iniconfig"}


def test_import_maxsup_alone_does_not_load_torch() -> None:
    assert packages_loaded_by("import maxsup; maxsup.__version__") == {"maxsup"}


def test_the_command_line_starts_without_torch_and_rich() -> None:
    loaded = packages_loaded_by("import maxsup.lab.cli.app")
    assert {"maxsup", "typer"} <= loaded
    assert loaded.isdisjoint({"numpy", "rich", "torch"})


def test_the_command_line_alone_loads_no_library() -> None:
    assert packages_loaded_by("import maxsup.lab.cli") == {"maxsup"}


def command(*words: str) -> str:
    """Statements that run one command and go on when it exits."""
    return f"""
import contextlib
from maxsup.lab.cli import main
with contextlib.suppress(SystemExit):
    main({list(words)!r})
"""


def arrays(folder: Path) -> Path:
    labels = np.arange(60) % 3
    logits = 3 * np.eye(3)[labels] + np.random.default_rng(0).normal(size=(60, 3))
    np.savez(folder / "batch.npz", logits=logits.astype(np.float32), labels=labels)
    return folder / "batch.npz"


def test_a_diagnosis_of_arrays_loads_neither_trainers_nor_networks_nor_data_sets(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    loaded = modules_loaded_by(command("diagnose", "--logits", str(arrays(tmp_path)), "--output", str(page)))
    assert page.is_file()
    assert rooms(loaded) == {"core", "diagnosis", "metrics", "lab/cli", "lab/core", "lab/figures", "lab/reports"}
    assert {name.partition(".")[0] for name in loaded}.isdisjoint(HEAVY)


def test_a_dry_run_loads_neither_analyses_nor_figures_nor_pages(tmp_path: Path) -> None:
    words = ["--losses", "ce,ls,maxsup", "--output", str(tmp_path / "out"), "--dry-run"]
    loaded = modules_loaded_by(command("compare", *words))
    assert rooms(loaded).isdisjoint({"diagnosis", "doctor", "integrations", "lab/bench", "lab/figures"})
    shown = {"maxsup.lab.analysis.analyses", "maxsup.lab.reports.report", "maxsup.lab.experiments.forecast"}
    assert loaded.isdisjoint(shown)
    assert len([name for name in loaded if name.startswith("maxsup.")]) <= 225


def test_the_doctor_of_a_batch_loads_the_losses_and_no_trainer(tmp_path: Path) -> None:
    loaded = modules_loaded_by(command("doctor", str(arrays(tmp_path))))
    assert rooms(loaded) == {"core", "diagnosis", "doctor", "losses", "metrics", "lab/cli", "lab/core"}
    assert {name.partition(".")[0] for name in loaded}.isdisjoint(HEAVY)


def test_the_doctor_of_settings_does_without_torch(tmp_path: Path) -> None:
    settings = tmp_path / "args.yaml"
    settings.write_text("smoothing: 0.1\nmixup: 0.8\nmodel: resnet50\n")
    loaded = modules_loaded_by(command("doctor", str(settings)))
    assert "maxsup.doctor.settings" in loaded
    assert loaded.isdisjoint({"numpy", "torch"})


def test_names_and_files_of_analyses_need_no_torch() -> None:
    loaded = modules_loaded_by("from maxsup.lab.analysis import ANALYSES, data_label, read_results, result_path")
    assert rooms(loaded) == {"core", "lab/analysis", "lab/core"}
    assert "torch" not in loaded
