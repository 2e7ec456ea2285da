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
        "self.criterion = create_loss('maxsup')\nSMOOTHING = 0.1\nmixup_fn = Mix(label_smoothing=SMOOTHING)",
        "criterion: nn.Module = nn.CrossEntropyLoss(label_smoothing=0.1)\nmixup_fn = Mix(label_smoothing=0.1)",
        "args = TrainingArguments('out', label_smoothing_factor=0.1) or Loss()",
        "loss = nn.CrossEntropyLoss(label_smoothing=0.1)(z, y) + 0.5 * Loss()(z, y)",
        "loss = F.cross_entropy(z, y, label_smoothing=0.1) + 0.1 * maxsup_penalty(z).mean()",
    ],
)
def test_smoothing_that_is_set_twice_is_found(body: str) -> None:
    assert told(body) == [("error", "double_smoothing", "Line 6")]


def test_a_default_of_argparse_is_a_value() -> None:
    flag = "parser.add_argument('-s', '--label-smoothing', type=float, default={})\n"
    body = "criterion = Loss(0.1)\nmixup_fn = Mix(label_smoothing=args.label_smoothing)"
    assert told(flag.format(0.1) + body) == [("error", "double_smoothing", "Line 7")]
    assert told(flag.format(0.0) + body) == []
    assert told(body) == [("note", "unknown_smoothing", "Line 7")]


def test_branches_that_exclude_each_other_are_not_taken_together() -> None:
    body = """if mixing:
    mixup_fn = Mix(label_smoothing=0.1)
    criterion = SoftTargetCrossEntropy()
else:
    criterion = Loss(0.1)
"""
    assert told(body) == []
    apart = body.replace("else:", "if other:")
    assert told(apart) == [("warning", "double_smoothing", "Line 10")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("val_loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)", ("warning", "smoothed_evaluation", "Line 6")),
        ("crit = Loss(0.1)\nloss = crit(F.softmax(z, -1), y)", ("error", "softmax_before_loss", "Line 7")),
        ("crit = Loss(0.1)\np = z.softmax(-1)\nloss = crit(p, y)", ("error", "softmax_before_loss", "Line 8")),
        ("net = NeuralNetClassifier(Net, criterion=Loss)", ("error", "logits_as_probabilities", "Line 6")),
        ("criterion = Loss(Linear(0.1, 0.2))", ("warning", "schedule_not_advanced", "Line 6")),
        ("criterion = LabelSmoothingCrossEntropy()\nm = Mix(label_smoothing=0)", ("error", "mixed_targets", "Line 6")),
        ("from maxsup import MaxSup", ("error", "unknown_name", "Line 6")),
        ("from maxsup.losses import MaxSupLos", ("error", "unknown_name", "Line 6")),
    ],
)
def test_other_traps_are_found_by_their_line(body: str, expected: tuple[str, str, str]) -> None:
    assert told(body) == [expected]


@pytest.mark.parametrize(
    "body",
    [
        "criterion = Loss(0.1)\nmixup_fn = Mix(label_smoothing=0)\nval_criterion = nn.CrossEntropyLoss()",
        "losses = {'ls': nn.CrossEntropyLoss(label_smoothing=0.1), 'maxsup': Loss(0.1)}",
        "criterion = Loss(Linear(0.1, 0.2))\ncriterion.set_progress(0.5)",
        "linear = use_linear_loss(model, Loss(Linear(0.1, 0.2)))\nTrainer(callbacks=[linear.callback()])",
        "net = NeuralNetClassifier(Net, criterion=Loss, predict_nonlinearity=softmax)",
        "net = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss)",
        "c = Loss()\nloss = c(z, y) + 0.1 * other(z)",
        "import maxsup\nfrom maxsup.integrations.timm import *\ncriterion = maxsup.MaxSupLoss()",
        "",
    ],
)
def test_a_healthy_script_gives_nothing(body: str) -> None:
    assert told(body) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".analysis",
        ".data",
        ".diagnosis",
        ".doctor",
        ".functional",
        ".integrations",
        ".losses",
        ".metrics",
        ".models",
        ".monitor",
        ".schedules",
        ".studies",
        ".training",
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
    with pytest.raises(ValueError, match="script must be Python that can be read; got an error in line 2"):
        examine_script("x = 1\ndef f(:\n")
    with pytest.raises(ValueError, match="script must be Python that can be read"):
        examine_script("(" * 100_000)


def test_other_options_of_a_trainer_do_not_disturb_its_smoothing() -> None:
    source = "loss = MaxSupLoss(0.1)\nargs = TrainingArguments(label_smoothing_factor=0.1, ignore_index=3)"
    [finding] = examine_script(source)
    assert "by TrainingArguments (label_smoothing_factor=0.1)" in finding.sentence
