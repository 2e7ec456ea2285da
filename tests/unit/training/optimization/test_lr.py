"""The learning rate of the recipes, at points one can check by hand."""

import pytest

from maxsup.core.config import OptimizerConfig, ScheduleConfig
from maxsup.core.recipes import load_recipe
from maxsup.training.optimization.lr import learning_rate


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


def test_a_triangle_rises_and_falls_to_its_end() -> None:
    form = ScheduleConfig(name="linear", warmup_epochs=2, warmup_start=0.2, final_lr=0.01)
    rates = [learning_rate(OptimizerConfig(lr=1.0), form, 10, epoch, 0.0) for epoch in range(10)]
    assert rates[:3] == pytest.approx([0.2, 0.6, 1.0])
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert learning_rate(OptimizerConfig(lr=1.0), form, 10, 9, 0.9999) == pytest.approx(0.01, abs=1e-4)


def test_a_cosine_ends_at_its_final_rate() -> None:
    form = ScheduleConfig(name="cosine", final_lr=1e-5)
    assert learning_rate(OptimizerConfig(lr=1e-3), form, 300, 299, 0.99999) == pytest.approx(1e-5, rel=1e-3)


def test_a_constant_rate_is_constant() -> None:
    form = ScheduleConfig(name="constant")
    assert {learning_rate(OptimizerConfig(lr=0.3), form, 5, epoch, 0.7) for epoch in range(5)} == {0.3}


def test_a_polynomial_bends_with_its_power() -> None:
    form = ScheduleConfig(name="polynomial", power=0.9)
    assert learning_rate(OptimizerConfig(lr=1.0), form, 4, 1, 0.0) == pytest.approx(0.75**0.9)
    with pytest.raises(ValueError, match="power must go with name=polynomial"):
        ScheduleConfig(name="linear", power=0.9)
