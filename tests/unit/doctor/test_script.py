"""Scripts as people write them: each trap is found by its line, and what is healthy gives nothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from maxsup.doctor import examine_script

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.py"))

HEAD = """import torch.nn as nn
import torch.nn.functional as F
from timm.data.mixup import Mixup as Mix
from maxsup import MaxSupLoss as Loss, create_loss
from maxsup.schedules import Linear
from skorch import NeuralNetClassifier
"""


def told(body: str) -> list[tuple[str, str, str]]:
    """Severity, name and line of what is found in a script."""
    found = examine_script(HEAD + body)
    return [(one.level, one.topic, one.sentence.partition(":")[0]) for one in found]


@pytest.mark.parametrize(
    "body",
    [
        "criterion = Loss(0.1)\nmixup_fn = Mix(mixup_alpha=0.8)",
        "criterion = Loss(alpha=0.1).cuda()\nmixup_fn = Mix(label_smoothing=0.1)",
        "self.criterion = create_loss('maxsup')\nif args.mixup > 0:\n    mixup_fn = Mix()",
    ],
)
def test_a_mixup_that_smooths_beside_maxsup_is_found(body: str) -> None:
    assert told(body) == [("error", "double_smoothing", "Line 7")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("crit = Loss(0.1)\nloss = crit(F.softmax(z, -1), y)", ("error", "softmax_before_loss", "Line 8")),
        ("loss = F.cross_entropy(z.softmax(-1), y)", ("error", "softmax_before_loss", "Line 7")),
        ("net = NeuralNetClassifier(Net, criterion=Loss)", ("error", "logits_as_probabilities", "Line 7")),
        ("criterion = Loss(Linear(0.1, 0.2))", ("warning", "schedule_not_advanced", "Line 7")),
        ("from maxsup import MaxSup", ("error", "unknown_name", "Line 7")),
        ("from maxsup.losses import MaxSupLos", ("error", "unknown_name", "Line 7")),
    ],
)
def test_other_traps_are_found_by_their_line(body: str, expected: tuple[str, str, str]) -> None:
    assert told(body) == [expected]


# What the training scripts of the field do, in their order; none of it is a mistake.
MIXING = """parser.add_argument('--smoothing', type=float, default=0.1)
mixup_fn = None
if mixup_active:
    mixup_fn = Mix(mixup_alpha=args.mixup, label_smoothing=args.smoothing, num_classes=1000)
"""
CHOSEN = """from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
if mixup_fn is not None:
    criterion = SoftTargetCrossEntropy()
elif args.smoothing > 0.0:
    criterion = LabelSmoothingCrossEntropy(smoothing=args.smoothing)
else:
    criterion = nn.CrossEntropyLoss()
"""
RIGHT = {
    "the loss chosen by the mixing": MIXING + CHOSEN,
    "a smoothed loss that the mixing replaces": MIXING
    + "criterion = LabelSmoothingCrossEntropy()\nif mixup_active:\n    criterion = SoftTargetCrossEntropy()",
    "the same, as an expression": MIXING
    + "criterion = SoftTargetCrossEntropy() if mixup_fn else nn.CrossEntropyLoss(label_smoothing=0.1)",
    "MaxSup in place of the first": MIXING.replace("args.smoothing,", "0.0,")
    + CHOSEN.replace("SoftTargetCrossEntropy()", "Loss(0.1)"),
    "MaxSup chosen by a flag, the mixing smoothed for the others": MIXING
    + "criterion = Loss(0.1) if args.maxsup else SoftTargetCrossEntropy()",
    "MaxSup or a smoothed mixing": "if mix:\n    m = Mix()\n    c = SoftTargetCrossEntropy()\nelse:\n    c = Loss(0.1)",
    "a Mixup of one's own, which does not smooth": "from mixing import Mixup\nm = Mixup(0.2)\nc = Loss(0.1)",
    "a softmax after the loss": "c = Loss()\nloss = c(z, y)\nz = z.softmax(-1)\nacc = (z.argmax(1) == y).mean()",
    "a softmax of the same name elsewhere": "c = Loss()\np = z.softmax(-1)\nlog(p)\np = head(x)\nloss = c(p, y)",
    "a softmax into another loss": "c = nn.NLLLoss()\nif ce:\n    c = Loss()\nloss = c(z.softmax(-1).log(), y)",
    "probabilities of a teacher as targets": "loss = F.cross_entropy(z, teacher(x).softmax(-1))",
    "smoothing for training alone": "c = nn.CrossEntropyLoss(label_smoothing=0.1)\nv = nn.CrossEntropyLoss()",
    "losses by name": "losses = {'ls': nn.CrossEntropyLoss(label_smoothing=0.1), 'maxsup': Loss(0.1)}",
    "a mixing that does not smooth": "criterion = Loss(0.1)\nmixup_fn = Mix(label_smoothing=0)",
    "options from a mapping": "criterion = Loss(0.1)\nmixup_fn = Mix(**mixup_args)",
    "a schedule that is advanced": "criterion = Loss(Linear(0.1, 0.2))\ncriterion.set_progress(0.5)",
    "a schedule that a trainer advances": "from maxsup.integrations import lightning\nc = Loss(Linear(0.1, 0.2))",
    "skorch with a softmax": "net = NeuralNetClassifier(Net, criterion=Loss, predict_nonlinearity=softmax)",
    "skorch with torch's loss": "net = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss)",
    "names that a star imports": "import maxsup\nfrom maxsup.integrations.timm import *\nc = maxsup.MaxSupLoss()",
    "nothing": "",
}  # fmt: skip


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_script_that_is_right_gives_nothing(body: str) -> None:
    assert told(body) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".diagnosis",
        ".doctor",
        ".functional",
        ".integrations",
        ".lab",
        ".lab.analysis",
        ".lab.data",
        ".lab.experiments",
        ".lab.models",
        ".lab.training",
        ".losses",
        ".metrics",
        ".monitor",
        ".schedules",
    ],
)
def test_every_public_name_is_known(name: str) -> None:
    module = import_module(f"maxsup{name}")
    assert told("\n".join(f"from {module.__name__} import {public}" for public in module.__all__)) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_of_this_project_are_healthy(path: Path) -> None:
    assert [one for one in examine_script(path.read_text()) if one.level != "note"] == []


def test_the_script_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    assert examine_script(f"open({str(mark)!r}, 'w')\nraise SystemExit") == []
    assert not mark.exists()


def test_what_is_no_python_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match="script must be valid Python; got an error in line 2"):
        examine_script("x = 1\ndef f(:\n")
    with pytest.raises(ValueError, match="script must be valid Python"):
        examine_script("(" * 100_000)
