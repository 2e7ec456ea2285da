"""The learning rate of the recipes at points one can check by hand, weight decay, and the moving average."""

import pytest
import torch
from torch import nn

from maxsup.lab.core.config import OptimizerConfig, ScheduleConfig
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.models import create_model
from maxsup.lab.segmentation import create_segmenter
from maxsup.lab.training.optimization import MovingAverage, create_optimizer, learning_rate, split_by_decay


def rate(recipe: str, epoch: int, share: float = 0.0) -> float:
    loaded = load_recipe(recipe)
    return learning_rate(loaded.optimizer, loaded.schedule, loaded.epochs, epoch, share, loaded.steps_per_epoch)


@pytest.mark.parametrize(
    ("recipe", "epoch", "share", "expected"),
    [
        ("cifar100_resnet", 0, 0.25, 0.025),
        ("cifar100_resnet", 59, 0.9, 0.1),
        ("cifar100_resnet", 60, 0.0, 0.02),
        ("cifar100_resnet", 160, 0.0, 0.1 * 0.2**3),
        ("imagenet_resnet", 1, 0.0, 0.425),
        ("imagenet_resnet", 2, 0.0, 0.85),
        ("imagenet_resnet", 101, 0.0, 0.425),
        ("imagenet_resnet_v1", 29, 0.9, 0.1),
        ("imagenet_resnet_v1", 30, 0.0, 0.01),
        ("imagenet_resnet_v1", 89, 0.0, 0.001),
        ("imagenet_deit_small", 0, 0.0, 1e-6),
        ("imagenet_deit_small", 5, 0.0, 1e-3),
        # The published long-tail code: 0.0933 in the first epoch, then up to 0.2 in the fifth.
        ("cifar10_lt_resnet32", 0, 0.5, 0.2 * (1 / 3 + 2 / 3 / 5)),
        ("cifar10_lt_resnet32", 4, 0.0, 0.2),
        ("cifar10_lt_resnet32", 120, 0.0, 0.002),
        ("cifar10_lt_resnet32", 160, 0.0, 2e-5),
        ("cifar10c_resnet50", 100, 0.9, 0.005),
        # 160,000 iterations in ten parts: half the warm-up, its end, and halfway down the line.
        ("ade20k_upernet_deit_small", 0, 750 / 16_000, 6e-5 * (1e-6 + (1 - 1e-6) / 2)),
        ("ade20k_upernet_deit_small", 0, 1_500 / 16_000, 6e-5),
        ("ade20k_upernet_deit_small", 5, 750 / 16_000, 3e-5),
    ],
)
def test_the_recipes_have_the_published_rates(recipe: str, epoch: int, share: float, expected: float) -> None:
    assert rate(recipe, epoch, share) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("form", "at", "expected"),
    [
        ({"name": "cosine", "final_lr": 1e-5}, (299, 0.99999), 1e-5),
        ({"name": "constant"}, (250, 0.7), 1.0),
        ({"name": "polynomial", "power": 0.9}, (75, 0.0), 0.75**0.9),
        ({"name": "linear", "warmup_epochs": 60, "warmup_start": 0.2, "final_lr": 0.01}, (0, 0.0), 0.2),
        ({"name": "linear", "warmup_epochs": 60, "warmup_start": 0.2, "final_lr": 0.01}, (30, 0.0), 0.6),
        ({"name": "linear", "warmup_epochs": 60, "warmup_start": 0.2, "final_lr": 0.01}, (60, 0.0), 1.0),
        ({"name": "linear", "warmup_epochs": 60, "warmup_start": 0.2, "final_lr": 0.01}, (180, 0.0), 0.505),
        ({"name": "linear", "warmup_epochs": 60, "warmup_start": 0.2, "final_lr": 0.01}, (299, 0.99999), 0.01),
    ],
)
def test_every_form_of_decay(form: dict, at: tuple[int, float], expected: float) -> None:
    rate = learning_rate(OptimizerConfig(lr=1.0), ScheduleConfig(**form), 300, *at)
    assert rate == pytest.approx(expected, rel=1e-3)


def test_a_power_goes_with_a_polynomial() -> None:
    with pytest.raises(ValueError, match="power must go with name=polynomial"):
        ScheduleConfig(name="linear", power=0.9)


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
