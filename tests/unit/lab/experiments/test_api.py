from pathlib import Path

import pytest
import torch
from torch import nn

from maxsup.core import schedules
from maxsup.core.errors import MaxsupError
from maxsup.lab.experiments import Design, compare, run_study
from maxsup.lab.experiments.execution.launch import create_launcher
from maxsup.lab.experiments.execution.study_folder import write_folder
from maxsup.lab.experiments.order import comparison_order, study_order
from maxsup.losses import FocalLoss, MaxSupLoss

IMAGES, LABELS = torch.arange(60 * 64, dtype=torch.uint8).view(60, 1, 8, 8), torch.arange(60) % 3


def net(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


def options_of(design: Design) -> dict[str, dict[str, object]]:
    return {arm.name: arm.loss.options for experiment in design.experiments for arm in experiment.arms}


def test_data_and_network_made_in_python_are_names_in_every_recipe(tmp_path: Path) -> None:
    order = comparison_order((IMAGES, LABELS), net, ["ce", "ls"], seeds=2, output=tmp_path)
    recipes = [run.recipe for run in order.folder.runs.values()]
    assert len(recipes) == 4
    assert {recipe.data.name for recipe in recipes} == {f"arrays:{next(tmp_path.glob('data-*.npz'))}"}
    assert {recipe.model.name.rpartition("-")[0] for recipe in recipes} == {"python:net"}


def test_seeds_may_be_named(tmp_path: Path) -> None:
    order = comparison_order("digits", None, ["ce", "ls"], seeds=[3, 8], output=tmp_path)
    assert sorted({run.seed for run in order.folder.runs.values()}) == [3, 8]


def test_losses_may_be_words_mappings_and_objects(tmp_path: Path) -> None:
    losses = ["maxsup:0.3", {"name": "maxsup", "alpha": 0.2}, MaxSupLoss(schedules.Linear(0.1, 0.2)), FocalLoss(3.0)]
    design = comparison_order("digits", None, losses, output=tmp_path).design
    assert options_of(design) == {
        "maxsup_0_3": {"alpha": 0.3},
        "maxsup": {"alpha": 0.2},
        "maxsup__2": {"alpha": {"schedule": "linear", "start": 0.1, "end": 0.2}},
        "focal": {"gamma": 3.0},
    }
    assert [row.title for row in design.table.rows][1:3] == ["maxsup 0.2", "maxsup alpha=0.1..0.2"]


def test_a_loss_object_is_the_same_experiment_as_its_name(tmp_path: Path) -> None:
    by_name, by_object = (
        comparison_order("digits", None, ["ce", loss], seeds=1, output=tmp_path) for loss in ("maxsup", MaxSupLoss(0.1))
    )
    assert list(by_name.folder.runs) == list(by_object.folder.runs)


def test_a_folder_with_another_comparison_is_refused_and_left_alone(tmp_path: Path) -> None:
    write_folder(comparison_order("digits", None, ["ce", "ls"], seeds=1, output=tmp_path).folder)
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(MaxsupError, match=r"made with data.name='digits', for data.name='arrays:"):
        compare((IMAGES, LABELS), losses=["ce", "ls"], seeds=1, output=tmp_path, is_quiet=True, recipe="digits_cnn")
    assert (tmp_path / "study.json").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"losses": "ce,ls"}, TypeError, "losses must be a list; got 'ce,ls'"),
        ({"overrides": "epochs=1"}, TypeError, r"Write \['epochs=1'\]"),
        ({"seeds": [1, 1]}, ValueError, "seeds must be different numbers"),
        ({"losses": ["ce", {"alpha": 0.1}]}, ValueError, "a loss must have a name"),
        ({"losses": ["ce", nn.CrossEntropyLoss()]}, TypeError, "loss must be one of a registered class"),
        ({"tune": "beta"}, ValueError, "tune must be"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    options: dict[str, object], error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=sentence):
        compare(**{"data": "digits", "losses": ["ce", "ls"], "output": tmp_path / "out", **options})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_workers_beside_a_launcher_object_are_refused(tmp_path: Path) -> None:
    launcher = create_launcher("local", num_workers=1)
    sentence = r"workers must be left out where launcher is an object; got 2. Create the launcher with num_workers=2\."
    with pytest.raises(ValueError, match=sentence):
        compare("digits", losses=["ce", "ls"], output=tmp_path / "out", launcher=launcher, workers=2)
    with pytest.raises(ValueError, match=sentence):
        run_study("tab_pre", output=tmp_path / "out", launcher=launcher, workers=2)
    assert not (tmp_path / "out").exists()


def test_what_only_this_process_knows_is_not_sent_to_other_machines(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    launcher = create_launcher("slurm", cluster="local")
    with pytest.raises(ValueError, match=r"which only this process knows. Move it into a file"):
        compare("digits", lambda count: net(count), ["ce", "ls"], output=tmp_path, launcher=launcher)
    assert not list(tmp_path.iterdir())


def test_a_study_goes_into_a_folder_named_after_it_and_its_scale(tmp_path: Path) -> None:
    assert study_order("tab_pre", "tiny").output == Path("studies/tab_pre-tiny")
    tuned = study_order("tab_pre", "tiny", output=tmp_path / "out", overrides={"epochs": 1}, tune=True)
    assert {run.recipe.epochs for run in tuned.design.runs()} == {1}
    assert tuned.trials_output == tmp_path / "out-tuning"
    with pytest.raises(ValueError, match="scale must be"):
        run_study("tab_pre", "huge")
