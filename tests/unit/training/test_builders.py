"""Optimiser, moving average, needs, loss: the parts the loop is made of."""

import pytest
import torch
from torch import nn

from maxsup.core.config import LossConfig, ModelConfig, OptimizerConfig
from maxsup.core.schedules import Linear, Piecewise
from maxsup.dense import create_segmenter
from maxsup.models import create_model
from maxsup.training.builders import build_loss
from maxsup.training.loss_inputs import Needs
from maxsup.training.optimization.ema import MovingAverage
from maxsup.training.optimization.optimizers import create_optimizer, split_by_decay
from maxsup.training.preprocessing import wanted_preprocessing


def spared(model: nn.Module, decay_filter: str) -> set[str]:
    return {name for name, _ in split_by_decay(model, decay_filter)[1]}


def test_all_parameters_decay_by_default() -> None:
    model = create_model("resnet20", 10)
    assert spared(model, "all") == set()


def test_weights_leave_out_biases_norms_and_what_the_model_lists() -> None:
    model = create_model("tiny_vit", 10, image_size=8)
    names = spared(model, "weights")
    assert all(parameter.ndim > 1 for name, parameter in model.named_parameters() if name not in names)
    assert {name.rpartition(".")[2] for name in names} >= {"bias", "weight", "pos_embed", "cls_token"}


def test_norms_leave_out_norms_and_what_the_model_lists_and_nothing_else() -> None:
    model = create_segmenter("upernet", 5, image_size=32, backbone="tiny_vit", channels=8, auxiliary_channels=8)
    names = spared(model, "norms")
    assert {"backbone.body.pos_embed", "backbone.body.cls_token", "backbone.body.blocks.0.norm1.bias"} <= names
    assert "decoder.bottleneck.batch_norm.weight" in names
    assert {"backbone.body.blocks.0.mlp.fc1.bias", "neck.projections.0.bias"}.isdisjoint(names)
    assert all("norm" in name for name in names - {"backbone.body.pos_embed", "backbone.body.cls_token"})


def test_the_published_names_forget_the_norms_of_shortcuts() -> None:
    model = create_model("resnet18", 10)
    names = spared(model, "paper_names")
    assert any("bn1" in name for name in names)
    assert not any("downsample.1.weight" in name for name in names)
    assert any("downsample.1.weight" in name for name in spared(model, "weights"))


def test_every_parameter_is_in_one_group_and_decay_is_where_it_belongs() -> None:
    model = create_model("small_cnn", 10)
    optimizer = create_optimizer(model, OptimizerConfig(weight_decay=0.1, decay_filter="weights"))
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_an_optimizer_step_is_that_of_torch(name: str) -> None:
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    second.load_state_dict(first.state_dict())
    config = OptimizerConfig(name=name, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    ours = create_optimizer(first, config)
    theirs = {
        "sgd": lambda: torch.optim.SGD(second.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        "adamw": lambda: torch.optim.AdamW(second.parameters(), 0.1, weight_decay=0.01),
    }[name]()
    for _ in range(3):
        for model, optimizer in ((first, ours), (second, theirs)):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).square().sum().backward()
            optimizer.step()
    assert torch.allclose(first.weight, second.weight, atol=1e-6)


def test_the_moving_average_follows_weights_and_statistics_and_copies_counters() -> None:
    model = nn.BatchNorm1d(2)
    average = MovingAverage(model, decay=0.75)
    model(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    average.update(model)
    assert torch.allclose(average.model.running_mean, 0.25 * model.running_mean)
    assert average.model.num_batches_tracked == 1
    assert not any(parameter.requires_grad for parameter in average.model.parameters())


def test_before_there_is_a_teacher_its_prediction_is_uniform_and_then_it_is_the_model_of_that_moment() -> None:
    model, images = create_model("small_cnn", 4), torch.randn(3, 3, 8, 8)
    needs = Needs(["teacher_logits"])
    logits, extras = needs.forward(model, images)
    assert torch.equal(extras["teacher_logits"], torch.zeros_like(logits))
    needs.set_teacher(model)
    expected = model.eval()(images)
    with torch.no_grad():
        model.head.weight.add_(1.0)
    assert torch.equal(needs.forward(model.train(), images)[1]["teacher_logits"], expected)


def test_dense_logits_come_from_the_pass_that_is_trained() -> None:
    model, images = create_model("small_cnn", 4), torch.randn(3, 3, 8, 8)
    logits, extras = Needs(["dense_logits"]).forward(model.train(), images)
    assert extras["dense_logits"].shape[:2] == (3, 4)
    assert torch.allclose(extras["dense_logits"].mean(dim=(2, 3)), logits, atol=1e-5)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert {int(norm.num_batches_tracked) for norm in norms} == {1}


def test_a_need_nobody_serves_is_refused() -> None:
    with pytest.raises(ValueError, match=r"need of a loss must be one of .*got 'teacher_logit'. Did you mean"):
        Needs(["teacher_logit"])


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
