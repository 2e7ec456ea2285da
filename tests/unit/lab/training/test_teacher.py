"""A run as the teacher of another."""

from pathlib import Path

import pytest
import torch

from maxsup.core.errors import MaxsupError
from maxsup.lab.core.config import parse_recipe, recipe_digest
from maxsup.lab.training import train
from maxsup.lab.training.builders import build_data
from maxsup.lab.training.preflight.check import check_recipe
from maxsup.lab.training.progress import Reporter
from maxsup.lab.training.reading import load_run, load_teacher
from tests.unit.lab.analysis.made import make_run
from tests.unit.lab.data.made import write_npz

WORDS = ["epochs=1", "batch_size=700", "threads=1"]
STUDENT = ["loss.name=distillation", "loss.temperature=2", "model.options={widths: [4]}"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("teacher") / "run", "ce")


def test_a_student_learns_from_the_network_of_a_run(teacher: Path, tmp_path: Path) -> None:
    recipe = parse_recipe({}, [*WORDS, *STUDENT, f"teacher={teacher}"])
    plans = {"taught": recipe, "alone": recipe.model_copy(update={"teacher": None})}
    taught, alone = (train(plan, tmp_path / name, reporter=Reporter()) for name, plan in plans.items())
    assert taught["steps"] == alone["steps"] > 0
    first, second = (load_run(tmp_path / name)[2].state_dict() for name in ("taught", "alone"))
    assert any(not torch.equal(first[key], second[key]) for key in first)
    bundle = build_data(recipe)
    asked, trained = load_teacher(teacher, bundle), load_run(teacher)[2]
    images = torch.randn(3, 1, 8, 8)
    assert torch.equal(asked(images), trained(images))
    assert not any(parameter.requires_grad for parameter in asked.parameters())


def test_runs_without_a_teacher_keep_their_names_and_two_teachers_make_two_runs() -> None:
    assert recipe_digest(parse_recipe({}, [])) == "8f0bb04f"
    names = {recipe_digest(parse_recipe({}, [*STUDENT, *words])) for words in ([], ["teacher=a"], ["teacher=b"])}
    assert len(names) == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["loss.name=ce"], "teacher must go with a loss that needs one; got .*'ce'. Use loss.name=distillation"),
        ([*STUDENT, "data.name=synthetic"], r"teacher must have learnt the 10 classes of 'synthetic'"),
        ([*STUDENT, "data.name=arrays:four.npz"], "teacher must have learnt the 4 classes of .*; got 10 classes in"),
        ([*STUDENT, "teacher=nowhere"], "nowhere"),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused_in_one_sentence(
    words: list[str], sentence: str, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_npz(tmp_path / "four.npz", classes=4)
    recipe = parse_recipe({}, [*WORDS, f"teacher={teacher}", *words])
    with pytest.raises((ValueError, MaxsupError), match=sentence) as error:
        train(recipe, tmp_path / "run", reporter=Reporter())
    assert "\n" not in str(error.value)
    if "ce'" in sentence:
        with pytest.raises(ValueError, match=sentence):
            check_recipe(recipe)
