import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from maxsup.analysis.analyses.factors import STRENGTHS, factor_r_squared


def parts(noise: float, count: int = 200, width: int = 6) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    features = 3 + torch.randn(3 * count, width, generator=generator, dtype=torch.float64)
    weight = torch.randn(width, generator=generator, dtype=torch.float64)
    factor = features @ weight + noise * torch.randn(3 * count, generator=generator, dtype=torch.float64)
    return list(zip(features.split(count), factor.split(count), strict=True))


def test_it_is_the_ridge_regression_of_scikit_learn_chosen_on_validation() -> None:
    train, val, test = parts(noise=4.0, count=30)

    def score(strength: float, fitted: list[tuple[torch.Tensor, torch.Tensor]], judged: tuple) -> float:
        rows, values = (torch.cat(column).numpy() for column in zip(*fitted, strict=True))
        unit = np.linalg.eigvalsh(np.cov(rows.T, bias=True) * len(rows)).mean()
        return float(Ridge(alpha=strength * unit).fit(rows, values).score(judged[0].numpy(), judged[1].numpy()))

    best = max(STRENGTHS, key=lambda strength: score(strength, [train], val))
    expected = score(best, [train, val], test)
    assert factor_r_squared("x", train, val, test) == pytest.approx(expected, abs=1e-8)


def test_what_features_do_not_hold_is_not_found() -> None:
    rows = parts(noise=0.0)
    generator = torch.Generator().manual_seed(5)
    shuffled = [(features, torch.rand(len(features), generator=generator)) for features, _ in rows]
    assert abs(factor_r_squared("x", *shuffled)) < 0.1
    assert factor_r_squared("x", *rows) == pytest.approx(1.0, abs=1e-6)


def test_a_hue_that_passes_its_end_is_still_one_colour() -> None:
    hue = torch.rand(600, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    angle = 2 * math.pi * hue
    features = torch.stack([angle.cos(), angle.sin(), torch.ones_like(angle)], dim=1)
    rows = list(zip(features.split(200), hue.split(200), strict=True))
    assert factor_r_squared("hue", *rows) == pytest.approx(1.0, abs=1e-6)
    # As a number from 0 to 1 it would jump where red meets red.
    assert factor_r_squared("other", *rows) < 0.8
