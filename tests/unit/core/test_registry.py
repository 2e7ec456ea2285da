"""One check of options for everything that has a name."""

import pytest

from maxsup.core.registry import Registry
from maxsup.lab.analysis import ANALYSES
from maxsup.lab.data import DATASETS
from maxsup.lab.experiments.execution.launch import LAUNCHERS
from maxsup.lab.models import MODELS
from maxsup.lab.segmentation import SEGMENTERS
from maxsup.losses import LOSSES


@pytest.mark.parametrize(
    ("registry", "name", "option", "meant"),
    [
        (LOSSES, "maxsup", "alhpa", "alpha"),
        (LOSSES, "ce", "reducton", "reduction"),
        (MODELS, "small_cnn", "width", "widths"),
        (SEGMENTERS, "upernet", "chanels", "channels"),
        (DATASETS, "cifar10_lt", "imbalanse", "imbalance"),
        (ANALYSES, "projection", "clases", "classes"),
        (LAUNCHERS, "local", "workers", "num_workers"),
    ],
)
def test_an_option_that_does_not_exist_is_one_sentence_of_one_kind(
    registry: Registry, name: str, option: str, meant: str
) -> None:
    with pytest.raises(TypeError) as error:
        registry.check_options(name, [option])
    assert str(error.value) == (
        f"option of {registry.kind} {name!r} must be one it has; got {option!r}. Did you mean {meant!r}?"
    )
    registry.check_options(name, [meant])


def test_what_the_package_passes_itself_is_no_option() -> None:
    assert "split" not in ANALYSES.options("projection")
    with pytest.raises(TypeError, match="option of segmenter 'upernet' must be one it has; got 'pretrained'"):
        SEGMENTERS.check_options("upernet", ["pretrained"])


def test_a_member_that_takes_any_option_is_asked_itself() -> None:
    LAUNCHERS.check_options("slurm", ["partition", "whatever"])
    assert LAUNCHERS.options("slurm")["timeout_min"] == 240


def test_options_come_with_their_defaults() -> None:
    assert DATASETS.options("cifar10_lt") == {"imbalance": 100, "subset_seed": 0}


def test_a_name_is_given_once() -> None:
    colours: Registry[type] = Registry("colour")
    colours.register("red")(int)
    with pytest.raises(ValueError, match="colour name must be new; got 'red', which is taken"):
        colours.register("red")(str)
    assert colours.names() == ["red"]
