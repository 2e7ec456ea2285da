"""The inputs that losses need besides logits and targets."""

import pytest
import torch
from torch import nn

from maxsup.lab.models import create_model
from maxsup.lab.training.loss_inputs import Needs


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


def test_a_given_teacher_is_asked_and_stays_as_it_is() -> None:
    given = nn.Linear(2, 3)
    needs = Needs(["teacher_logits"], given)
    needs.set_teacher(nn.Linear(2, 3))
    images = torch.randn(4, 2)
    _, extras = needs.forward(nn.Linear(2, 3), images)
    assert torch.equal(extras["teacher_logits"], given(images))
    assert not extras["teacher_logits"].requires_grad
