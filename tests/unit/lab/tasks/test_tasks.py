"""What every task must offer, and how the task of a network, of data and of numbers is found."""

import pytest
import torch

from maxsup.lab.core.config import DenseConfig, ModelConfig, Recipe
from maxsup.lab.data import DATASETS, load_data
from maxsup.lab.models import Classifier, list_models
from maxsup.lab.segmentation import segmenters
from maxsup.lab.tasks import TASKS, check_model, check_unused, task_of_model, task_of_numbers
from maxsup.lab.training.builders import build_model, split_pipeline
from maxsup.metrics.facts import FACTS
from tests.unit.lab.segmentation.tiny import tiny_recipe

DIGITS = Recipe(model=ModelConfig(name="small_cnn"))


def test_every_data_set_is_of_a_task_and_every_network_of_one() -> None:
    assert {DATASETS.facts(name).get("task", "classification") for name in DATASETS} == set(TASKS.names())
    rows = [row["name"] for name in TASKS for row in TASKS[name].describe_models()]
    assert sorted(rows) == sorted([*list_models(), *segmenters.SEGMENTERS])
    assert {task_of_model(name).name for name in [*list_models(), "timm:resnet18", "hf:somewhere"]} == {
        "classification"
    }


@pytest.mark.parametrize("name", TASKS.names())
def test_the_numbers_of_a_task_are_found_again_by_its_main_number(name: str) -> None:
    recipe = {"classification": DIGITS, "segmentation": tiny_recipe()}[name]
    bundle = load_data(recipe.data.name, **recipe.data.options)
    task = TASKS[bundle.task]
    assert (task.name, task) == (name, task_of_model(recipe.model.name))
    batches = split_pipeline(recipe, bundle, bundle.val)
    numbers = task.evaluate(recipe, build_model(recipe, bundle), batches, num_classes=bundle.num_classes, split="val")
    assert task_of_numbers(numbers) is task
    assert FACTS[task.main_number].direction == "higher"
    assert set(task.progress_numbers.values()) <= numbers.keys()
    assert task.summarise(numbers).keys() - {"ece"} <= task.describe(numbers).keys()


def test_a_classifier_is_built_without_the_code_of_segmenters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxsup.lab.segmentation.task.create_segmenter", None)
    assert isinstance(build_model(DIGITS, load_data("digits")), Classifier)


def test_a_network_and_data_of_different_tasks_do_not_meet() -> None:
    check_model(ModelConfig(name="small_cnn"), "classification")
    check_model(ModelConfig(name="upernet"), "segmentation")
    for name, task in (("small_cnn", "segmentation"), ("upernet", "classification")):
        with pytest.raises(ValueError, match=name):
            check_model(ModelConfig(name=name), task)


def test_settings_of_another_task_are_refused() -> None:
    recipe = DIGITS.changed(dense=DenseConfig(resize=20))
    check_unused(recipe, "segmentation")
    with pytest.raises(ValueError, match=r"dense\.resize"):
        check_unused(recipe, "classification")


def test_the_monitor_sees_all_logits_of_images_and_some_of_pixels() -> None:
    images, pixels = torch.zeros(2, 10), torch.zeros(2, 10, 32, 32)
    assert images[TASKS["classification"].monitored].shape == (2, 10)
    assert pixels[TASKS["segmentation"].monitored].shape == (2, 10, 4, 4)
