"""Losses with schedules, and the preprocessing of pretrained networks."""

import pytest

from maxsup.core.schedules import Linear, Piecewise
from maxsup.lab.core.config import LossConfig, ModelConfig
from maxsup.lab.training.builders import build_loss
from maxsup.lab.training.preprocessing import wanted_preprocessing


@pytest.mark.parametrize(
    ("alpha", "schedule"),
    [
        ({"schedule": "linear", "start": 0.1, "end": 0.2}, Linear(0.1, 0.2)),
        ({"schedule": "piecewise", "points": [[0, 0.1], [1, 0.3]]}, Piecewise(((0, 0.1), (1, 0.3)))),
        ("linear_high", Linear(0.2, 0.3)),
    ],
)
def test_a_strength_may_be_a_schedule(alpha: object, schedule: object) -> None:
    assert build_loss(LossConfig(name="maxsup", alpha=alpha)).schedule == schedule


def test_a_schedule_may_be_any_strength() -> None:
    beta = {"schedule": "linear", "start": 0.0, "end": 0.1}
    assert build_loss(LossConfig(name="confidence_penalty", beta=beta)).schedule == Linear(0.0, 0.1)


@pytest.mark.parametrize(
    ("alpha", "sentence"),
    [
        ("linar", "loss.alpha must be a number or a schedule of the paper; got 'linar'. Did you mean 'linear'?"),
        ({"schedule": "linar"}, "loss.alpha.schedule must be one of constant, linear, cosine, piecewise; got 'linar'."),
        ({"start": 1}, "loss.alpha.schedule must be one of"),
        (
            {"schedule": "linear", "begin": 1},
            "loss.alpha with schedule 'linear' must have the keys start, end; got begin.",
        ),
    ],
)
def test_a_schedule_that_is_none_is_named(alpha: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        build_loss(LossConfig(name="maxsup", alpha=alpha))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("model", "mean"),
    [
        ({"name": "upernet", "options": {"backbone": "vit_tiny_patch16_224"}, "pretrained": True}, 0.5),
        ({"name": "upernet", "pretrained": "weights.safetensors"}, 0.485),
        ({"name": "timm:vit_tiny_patch16_224", "pretrained": "weights.safetensors"}, 0.5),
        ({"name": "timm:vit_tiny_patch16_224"}, None),
        ({"name": "auto", "pretrained": "auto"}, None),
        ({"name": "small_cnn", "pretrained": "weights.safetensors"}, None),
    ],
)
def test_a_pretrained_network_says_how_it_wants_images_and_a_segmenter_asks_its_backbone(
    model: dict, mean: float | None
) -> None:
    wanted = wanted_preprocessing(ModelConfig(**model))
    assert (None if wanted is None else wanted.mean[0]) == mean
