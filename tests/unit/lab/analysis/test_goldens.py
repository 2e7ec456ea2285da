"""Numbers of runs that nobody trained, as they were when they were checked.

To renew them after a change of definition, or to keep those of a new analysis:
``python -m tests.unit.lab.analysis.test_goldens``.
"""

import json
import math
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from maxsup.lab.analysis import ANALYSES, RunOutputs
from maxsup.metrics.facts import FACTS
from maxsup.metrics.novelty import SCORES
from tests.unit.lab.analysis.made import make_run, special_runs, values

pytestmark = pytest.mark.slow

FILE = Path(__file__).with_name("goldens.json")
GOLDENS = json.loads(FILE.read_text())
OPTIONS: dict[str, dict[str, Any]] = {
    "calibration": {"num_resamples": 2},
    "collapse": {"num_resamples": 2},
    "corruption": {"num_images": 60},
    "distillation": {"overrides": ["epochs=1"]},
    "gradcam": {"num_scored": 40},
    "projection": {"classes": ["1", "7", "8"]},
    "segmentation": {"scales": [0.75, 1.0], "flip": True},
}
# A single sample moves these by leaps, and the last bits of a machine may move a sample.
JUMPY = {"fpr95_before", "fpr95_after", "fpr95", "norm_power", "strength"}
JUMPY |= {f"ood_fpr95_{score}" for score in SCORES}
JUMPY |= {name for name in FACTS if name.startswith(("set_size_", "worst_class_coverage_"))}
# A student is trained, and the last bits of a machine add up over its steps.
JUMPY |= {"student_accuracy", "student_nll", "agreement", "kl"}
# One of 359 test images is 0.0028; the rest is rounding.
TOLERANCE = 0.006


WANTED = {"longtail": ["tail"], "gradcam": ["drawn"], "probe": ["ce", "drawn"], "corruption": ["ls"]}
WANTED |= {"segmentation": ["masks"]}


@cache
def _runs(folder: Path) -> dict[str, Path]:
    plain = {"ce": make_run(folder / "ce", "ce"), "ls": make_run(folder / "ls", "ls", "seed=1")}
    return plain | special_runs(folder)


def _numbers(name: str, folder: Path) -> dict[str, dict[str, float]]:
    """Numbers of an analysis by run; of those it applies to."""
    found = {}
    for label in WANTED.get(name, ["ce", "ls"]):
        run = RunOutputs(_runs(folder)[label])
        result = values(ANALYSES[name].compute(run, split="test", **OPTIONS.get(name, {})))
        found[label] = {key: value for key, value in result.items() if key not in JUMPY}
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("goldens")


@pytest.mark.parametrize("name", GOLDENS)
def test_numbers_are_what_they_were(name: str, folder: Path) -> None:
    golden = GOLDENS[name]
    found = _numbers(name, folder)
    assert set(found) == set(golden)
    for label, expected in golden.items():
        assert set(found[label]) == set(expected)
        for key, value in expected.items():
            number = found[label][key]
            if value is None:
                assert math.isnan(number), (label, key)
            else:
                assert number == pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE), (label, key)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        goldens = {
            name: {
                label: {key: None if math.isnan(value) else float(f"{value:.6g}") for key, value in numbers.items()}
                for label, numbers in _numbers(name, Path(place)).items()
            }
            for name in ANALYSES.names()
        }
    FILE.write_text(json.dumps(goldens, indent=1) + "\n")
