"""The head that never holds the logits against the loss on logits that are held."""

import pytest
import torch
import torch.nn.functional as F

from maxsup.functional import implementation, linear_maxsup_cross_entropy, maxsup_cross_entropy
from maxsup.losses import LinearMaxSupLoss
from maxsup.losses.head import blocks as head_blocks
from maxsup.losses.head import products
from maxsup.schedules import Linear


@pytest.fixture(autouse=True, params=["blocks", "held"])
def _way(request, monkeypatch):
    if request.param == "blocks":  # several, the last one shorter, at sizes a test can afford
        monkeypatch.setattr(products, "BLOCK_ROWS", 4)
        monkeypatch.setattr(products, "BLOCK_BYTES", 0)
        monkeypatch.setattr(head_blocks, "SMALL_BYTES", 0)


def case(dtype=torch.float64, scale=1.0, num_rows=11):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_rows, 6, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    weight = (scale * torch.randn(17, 6, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
    bias = torch.randn(17, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    target = torch.randint(17, (num_rows,), generator=generator)
    return hidden, weight, bias, target


def held(hidden, weight, bias, target, alpha, **options):
    with implementation("reference"):
        return maxsup_cross_entropy(F.linear(hidden, weight, bias), target, alpha, **options)


def gradients(loss, tensors, upstream=None):
    return torch.autograd.grad(loss, tensors, upstream)


def assert_same_loss_and_gradients(found, expected, tensors, upstream=None):
    assert torch.allclose(found, expected, rtol=1e-12)
    for own, other in zip(gradients(found, tensors, upstream), gradients(expected, tensors, upstream), strict=True):
        assert torch.allclose(own, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [0.05, 3.0, 30.0])
@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"num_items": 40}, {"num_items": torch.tensor(40)}])
def test_the_head_gives_the_loss_and_gradients_of_the_logits(options, scale):
    *tensors, target = case(scale=scale)
    target[3] = -100
    fused = linear_maxsup_cross_entropy(tensors[0], tensors[1], target, 0.3, bias=tensors[2], **options)
    assert_same_loss_and_gradients(3.0 * fused, 3.0 * held(*tensors, target, 0.3, **options), tensors)


@pytest.mark.parametrize(
    "options", [{}, {"margin": 0.5}, {"z_loss": 0.01}, {"soft_cap": 5.0}, {"logit_scale": 0.3}], ids=str
)
def test_few_operators_give_a_head_what_blocks_give_it(options):
    *tensors, target = case(scale=3.0)
    target[3] = -100
    losses = []
    for form in ("eager", "fused"):
        with implementation(form):
            losses.append(linear_maxsup_cross_entropy(*tensors[:2], target, 0.3, bias=tensors[2], **options))
    assert_same_loss_and_gradients(*losses, tensors)


@pytest.mark.parametrize("soft_cap", [0.0, 2.0])
@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"reduction": "none"}])
def test_a_head_scales_its_logits_before_it_caps_them(options, soft_cap):
    hidden, weight, bias, target = case(scale=3.0)
    target[3] = -100
    logits = F.linear(hidden, weight, bias) * 0.0625
    if soft_cap:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    with implementation("reference"):
        expected = maxsup_cross_entropy(logits, target, 0.3, z_loss=0.1, **options)
    given = {"bias": bias, "z_loss": 0.1, "logit_scale": 0.0625, "soft_cap": soft_cap, **options}
    found = linear_maxsup_cross_entropy(hidden, weight, target, 0.3, **given)
    assert_same_loss_and_gradients(found, expected, (hidden, weight, bias), torch.ones_like(expected))


@pytest.mark.parametrize("form", ["fused", "eager"])
def test_metrics_are_those_of_the_logits_of_the_rows_that_count(form):
    hidden, weight, bias, target = case(scale=3.0)
    target[3] = -100
    target[:2] = F.linear(hidden, weight, bias)[:2].argmax(1)
    with torch.no_grad():
        hidden[3] = torch.nan
    options = {"bias": bias, "logit_scale": 0.5, "soft_cap": 9.0}
    with implementation(form):
        loss, metrics = linear_maxsup_cross_entropy(hidden, weight, target, return_metrics=True, **options)
        assert loss == linear_maxsup_cross_entropy(hidden, weight, target, **options)
    correct, entropy, square = 0, 0.0, 0.0
    logits = 9 * torch.tanh(0.5 * F.linear(hidden, weight, bias).detach() / 9)
    for row, label in zip(logits, target, strict=True):
        if label != -100:
            logs = row.log_softmax(0)
            correct += int(row.argmax() == label)
            entropy -= float((logs.exp() * logs).sum())
            square += float(row.logsumexp(0)) ** 2
    assert (int(metrics.num_counted), int(metrics.num_correct)) == (10, correct)
    assert correct >= 2
    assert float(metrics.entropy_sum) == pytest.approx(entropy)
    assert float(metrics.z_loss_sum) == pytest.approx(square)
    assert float(metrics.accuracy) == pytest.approx(correct / 10)


def test_masked_classes_count_nothing_in_the_entropy():
    hidden, weight, _, target = case()
    bias = torch.zeros(17, dtype=torch.float64)
    bias[5:] = -torch.inf
    target %= 5
    _, metrics = linear_maxsup_cross_entropy(hidden, weight, target, bias=bias, return_metrics=True)
    _, expected = linear_maxsup_cross_entropy(hidden, weight[:5], target, return_metrics=True)
    assert [float(value) for value in metrics] == pytest.approx([float(value) for value in expected])


def test_metrics_pass_no_gradient_and_survive_a_compiler():
    hidden, weight, _, target = case()
    compiled = torch.compile(linear_maxsup_cross_entropy, backend="aot_eager", fullgraph=True)
    loss, metrics = compiled(hidden, weight, target, return_metrics=True, logit_scale=0.5)
    plain, others = linear_maxsup_cross_entropy(hidden, weight, target, return_metrics=True, logit_scale=0.5)
    assert not any(value.requires_grad for value in (*metrics, *others))
    assert [float(value) for value in metrics] == pytest.approx([float(value) for value in others])
    assert_same_loss_and_gradients(loss, plain, (hidden, weight))


@pytest.mark.parametrize("block_rows", [1, 5, 100])
def test_the_number_of_rows_in_memory_changes_nothing_else(block_rows):
    *tensors, target = case()
    loss = linear_maxsup_cross_entropy(*tensors[:2], target, 0.3, bias=tensors[2], block_rows=block_rows)
    assert_same_loss_and_gradients(loss, held(*tensors, target, 0.3), tensors)


def test_a_device_takes_few_blocks_of_about_one_size(monkeypatch):
    monkeypatch.setattr(products, "BLOCK_ROWS", 256)
    meta = torch.device("meta")
    assert products.rows_of_block(8192, 2 * 151936, meta) == 2816  # three of at most 1 GiB
    assert products.rows_of_block(100, 2 * 151936, meta) == 128
    assert products.rows_of_block(10**6, 2 * 4 * 10**6, meta) == 256


def test_every_row_may_have_its_own_upstream_gradient():
    *tensors, target = case()
    target[0] = 255
    upstream = torch.linspace(-1, 2, 11, dtype=torch.float64)
    options = {"ignore_index": 255, "reduction": "none"}
    fused = linear_maxsup_cross_entropy(tensors[0], tensors[1], target, 0.3, bias=tensors[2], **options)
    assert_same_loss_and_gradients(fused, held(*tensors, target, 0.3, **options), tensors, upstream)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_second_backward_gives_the_same_gradients(reduction):
    *tensors, target = case()
    loss = linear_maxsup_cross_entropy(tensors[0], tensors[1], target, bias=tensors[2], reduction=reduction)
    upstream = torch.full_like(loss, 2.0)
    first = torch.autograd.grad(loss, tensors, upstream, retain_graph=True)
    second = torch.autograd.grad(loss, tensors, upstream)
    assert all(torch.equal(left, right) for left, right in zip(first, second, strict=True))


def test_a_frozen_head_still_passes_gradients_to_hidden():
    hidden, weight, _, target = case()
    weight = weight.detach()
    (ours,) = gradients(linear_maxsup_cross_entropy(hidden, weight, target), [hidden])
    (theirs,) = gradients(held(hidden, weight, None, target, 0.1), [hidden])
    assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-14)


def test_tied_embeddings_collect_both_gradients():
    _, weight, _, target = case()
    tokens = torch.arange(11) % 17
    (ours,) = gradients(linear_maxsup_cross_entropy(weight[tokens], weight, target), [weight])
    (theirs,) = gradients(held(weight[tokens], weight, None, target, 0.1), [weight])
    assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-14)


def test_bf16_accumulates_the_weight_gradient_in_float32():
    hidden, weight, bias, target = case(torch.bfloat16, num_rows=64)
    loss = linear_maxsup_cross_entropy(hidden, weight, target, bias=bias)
    exact = [tensor.detach().double().requires_grad_() for tensor in (hidden, weight, bias)]
    expected = held(*exact, target, 0.1)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=3e-3)
    for ours, theirs in zip(gradients(loss, [hidden, weight, bias]), gradients(expected, exact), strict=True):
        assert ours.dtype == torch.bfloat16
        assert torch.allclose(ours.double(), theirs, rtol=0.02, atol=0.01 * theirs.abs().max().item())


def test_autocast_forms_products_in_its_own_precision():
    hidden, weight, bias, target = case(torch.float32, num_rows=64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_maxsup_cross_entropy(hidden, weight, target, bias=bias)
        expected = maxsup_cross_entropy(F.linear(hidden, weight, bias), target)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=5e-3)
    (ours,) = gradients(loss, [weight])
    assert ours.dtype == torch.float32


def test_a_loss_scaler_meets_gradients_that_have_not_underflowed(monkeypatch):
    monkeypatch.setattr(products, "BLOCK_ROWS", 256)
    generator = torch.Generator().manual_seed(0)
    hidden = (0.1 * torch.randn(1024, 8, generator=generator)).half().requires_grad_()
    weight = (0.5 + torch.randn(8000, 8, generator=generator) / 3).half().requires_grad_()
    target = torch.randint(8000, (1024,), generator=generator)
    exact = [tensor.detach().double().requires_grad_() for tensor in (hidden, weight)]
    expected = gradients(held(*exact, None, target, 0.1), exact)
    scale = 65536.0
    fused = gradients(scale * linear_maxsup_cross_entropy(hidden, weight, target), [hidden, weight])
    plain = gradients(scale * maxsup_cross_entropy(F.linear(hidden, weight), target), [hidden, weight])
    for own, other, true in zip(fused, plain, expected, strict=True):
        error, usual = ((found.double() / scale - true).norm() / true.norm() for found in (own, other))
        assert error <= 1.3 * usual
        assert error < 0.01


def test_a_learnable_alpha_gets_the_gradient_it_gets_from_logits():
    *tensors, target = case()
    alpha = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    fused = linear_maxsup_cross_entropy(tensors[0], tensors[1], target, alpha, bias=tensors[2])
    expected = held(*tensors, target, alpha)
    found, theirs = gradients(fused, [*tensors, alpha]), gradients(expected, [*tensors, alpha])
    assert theirs[-1] > 0
    assert all(torch.allclose(own, other, rtol=1e-10, atol=1e-13) for own, other in zip(found, theirs, strict=True))


@pytest.mark.parametrize("num_rows", [0, 3])
def test_nothing_to_count_gives_zero_gradients(num_rows):
    hidden, weight, _, target = case(num_rows=num_rows)
    target[:] = -100
    loss = linear_maxsup_cross_entropy(hidden, weight, target, num_items=5)
    assert loss == 0
    assert all((gradient == 0).all() for gradient in gradients(loss, [hidden, weight]))


def test_the_module_is_plain_cross_entropy_in_evaluation_and_follows_its_schedule():
    hidden, weight, bias, target = case()
    criterion = LinearMaxSupLoss(alpha=Linear(0.1, 0.3))
    with pytest.raises(RuntimeError, match="set_progress"):
        criterion(hidden, weight, target, bias=bias)
    criterion.set_progress(0.5)
    assert torch.allclose(criterion(hidden, weight, target, bias=bias), held(hidden, weight, bias, target, 0.2))
    plain = F.cross_entropy(F.linear(hidden, weight, bias), target)
    assert torch.allclose(criterion.eval()(hidden, weight, target, bias=bias), plain)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hidden": torch.zeros(2, 3, 6)}, "Flatten batch and sequence"),
        ({"target": torch.zeros(11)}, "target must be class indices"),
        ({"target": torch.full((11,), 17)}, "got 17 in row 0"),
        ({"bias": torch.zeros(3)}, "bias must have shape"),
        ({"reduction": "none", "num_items": 3}, "num_items must go with"),
        ({"num_items": -1}, "num_items must be a number of at least 0; got -1"),
        ({"alpha": -1.0}, "alpha must be a number"),
        ({"logit_scale": 0.0}, "logit_scale must be a number above 0"),
        ({"block_rows": 0}, "block_rows must be a whole number"),
        ({"alpha": torch.full((7,), 0.1)}, "alpha must be one number for all samples"),
    ],
)
def test_bad_input_gets_one_sentence(change, sentence):
    hidden, weight, _, target = case()
    with pytest.raises(ValueError, match=sentence):
        linear_maxsup_cross_entropy(**{"hidden": hidden, "weight": weight, "target": target, **change})
