"""Losses of logits whose classes are split over gloo processes are those of the whole logits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from maxsup import MaxSupLoss, create_loss
from maxsup.functional import (
    confidence_penalty_cross_entropy,
    cross_entropy,
    implementation,
    label_smoothing_cross_entropy,
    logit_penalty_cross_entropy,
    maxsup_cross_entropy,
    mbls_cross_entropy,
)
from maxsup.losses import FocalLoss
from maxsup.schedules import Linear
from tests.integration.integrations.test_other_trainers import loss_of_the_page

pytestmark = pytest.mark.distributed
LAYOUTS = ((6, 6), (7, 5), (4, 4, 4), (5, 6, 1), (8, 0, 4))
WORLDS = (2, 3)
NUM_CLASSES = 12
Loss = Callable[..., Tensor]
LOSSES: dict[str, Loss] = {
    "ce": cross_entropy,
    "maxsup": lambda *given, **options: maxsup_cross_entropy(*given, 0.3, **options),
    "ls": lambda *given, **options: label_smoothing_cross_entropy(*given, 0.3, **options),
    "mbls": lambda *given, **options: mbls_cross_entropy(*given, 0.3, 1.0, **options),
    "logit_penalty": lambda *given, **options: logit_penalty_cross_entropy(*given, 0.3, **options),
}


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def logits_of(*shape: int) -> Tensor:
    """Class axis 1, with masked classes, ties across the parts, and a row far from 0."""
    logits = 3 * drawn(shape[0], NUM_CLASSES, *shape[1:])
    logits[1, 2] = logits[1, 8] = 9.0
    logits[2, 0] = logits[2, 11] = 9.0
    logits[3, :6] = -torch.inf
    logits[5] += 1000.0
    return logits


def labels_of(logits: Tensor) -> Tensor:
    shape = (logits.shape[0], *logits.shape[2:])
    labels = torch.randint(6, NUM_CLASSES, shape, generator=torch.Generator().manual_seed(1))
    labels[4] = -100
    return labels


def soft_of(logits: Tensor) -> Tensor:
    soft = drawn(*logits.shape, seed=2).masked_fill(logits == -torch.inf, -torch.inf).softmax(1)
    soft[4] = 0
    return soft


class Rank:
    """One process with its part of the classes."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.rank = dist.get_rank()
        self.group = dist.group.WORLD
        start = sum(sizes[: self.rank])
        self.part = slice(start, start + sizes[self.rank])

    def error(self, loss: Loss, logits: Tensor, target: Tensor, **options: Any) -> float:
        """Largest difference of value and gradient from the loss of the whole, written as a formula."""
        whole = logits.clone().requires_grad_()
        with implementation("reference"):
            expected = loss(whole, target, **options)
        upstream = drawn(*expected.shape, seed=3).to(expected.dtype)
        (gradient,) = torch.autograd.grad(expected, whole, upstream)
        part = logits[:, self.part].clone().requires_grad_()
        own = target[:, self.part] if target.is_floating_point() else target
        found = loss(part, own, **options, group=self.group)
        (own_gradient,) = torch.autograd.grad(found, part, upstream)
        assert (own_gradient.dtype, found.dtype) == (part.dtype, expected.dtype)
        scale = expected.detach().abs().max().clamp(min=1)
        return max(
            largest((found - expected).detach() / scale),
            largest(own_gradient.double() - gradient[:, self.part].double()),
        )


def largest(difference: Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0


def grid() -> Iterator[tuple[str, dict[str, Any]]]:
    weight = drawn(NUM_CLASSES, seed=4).exp()
    for reduction in ("none", "sum", "mean"):
        for is_weighted in (False, True):
            for z_loss in (0.0, 0.03):
                for num_items in (None, 5.0) if reduction == "mean" else (None,):
                    options = {"reduction": reduction, "weight": weight if is_weighted else None, "z_loss": z_loss}
                    yield (
                        f"{reduction} weighted={is_weighted} z_loss={z_loss} num_items={num_items}",
                        options | {"num_items": num_items},
                    )


def errors_of_a_layout(sizes: tuple[int, ...]) -> dict[str, float]:
    rank, found = Rank(sizes), {}
    for shape in ((7,), (7, 2, 3)):
        logits = logits_of(*shape)
        for name, loss in LOSSES.items():
            for kind, target in (("labels", labels_of(logits)), ("soft", soft_of(logits))):
                given = logits
                if name == "ce" and kind == "soft":  # of masked classes torch makes 0 times infinity
                    given = logits.nan_to_num(neginf=-5.0)
                for case, options in list(grid())[:: 1 if len(shape) == 1 else 5]:
                    found[f"{sizes} {name} {shape} {kind} {case}"] = rank.error(loss, given, target, **options)
    return found


class Counter:
    """The collectives of a block, and the bytes that each process puts into them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        def spied(name: str, original: Any) -> Any:
            def call(tensor: Any, *others: Any, **options: Any) -> Any:
                self.calls.append((name, tensor.numel() * tensor.element_size() if isinstance(tensor, Tensor) else 0))
                return original(tensor, *others, **options)

            return call

        names = ("all_reduce", "all_gather", "all_gather_into_tensor", "broadcast", "all_to_all", "reduce_scatter")
        with mock.patch.multiple(dist, **{name: spied(name, getattr(dist, name)) for name in names}):
            yield


def counts() -> dict[str, Any]:
    rank, found = Rank((7, 5)), {}
    logits = drawn(512, NUM_CLASSES)
    for name, loss in LOSSES.items():
        for kind, target in (("labels", labels_of(logits)), ("soft", logits.softmax(1))):
            for dtype in (torch.float32, torch.float64):
                part = logits[:, rank.part].to(dtype).requires_grad_()
                own = target[:, rank.part] if kind == "soft" else target
                forward, backward = Counter(), Counter()
                with forward.counting():
                    value = loss(part, own, group=rank.group, z_loss=0.1)
                with backward.counting():
                    value.backward()
                total = sum(size for _, size in forward.calls) / len(logits)
                found[f"{name} {kind} {dtype}"] = (len(forward.calls), total, len(backward.calls))
    return found


def kinds_of_calls() -> dict[str, float]:
    """Everything besides the grid, each as an error that must be 0."""
    rank = Rank((7, 5))
    logits = logits_of(7)
    labels, part = labels_of(logits), logits[:, rank.part]
    found = {}
    # Parts in another order than the ranks.
    start = (5, 0)[rank.rank]
    other = logits[:, start : start + (7, 5)[rank.rank]]
    value = maxsup_cross_entropy(other, labels, 0.3, group=rank.group, vocab_start=start)
    whole = maxsup_cross_entropy(logits, labels, 0.3)
    found["order"] = float(value - whole)
    criterion = MaxSupLoss(Linear(0.1, 0.2), group=rank.group)
    criterion.set_progress(1.0)
    assert create_loss("ls", group=rank.group).group is rank.group
    found["module"] = float(criterion(part, labels) - maxsup_cross_entropy(logits, labels, 0.2))
    found["evaluation"] = float(criterion.eval()(part, labels) - cross_entropy(logits, labels))
    half, options = logits.bfloat16(), {"reduction": "sum"}
    found["bfloat16"] = rank.error(LOSSES["maxsup"], half, labels, **options) / 100
    alpha = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    loss = maxsup_cross_entropy(part, labels, alpha, group=rank.group)
    (slope,) = torch.autograd.grad(loss, alpha)
    found["learnt strength"] = float(slope - (maxsup_cross_entropy(logits, labels, 1.3) - whole))
    strengths = drawn(7, seed=5).abs().requires_grad_()
    pairs = []
    for given, group in ((part, rank.group), (logits, None)):
        value = maxsup_cross_entropy(given, labels, strengths, group=group)
        pairs.append(torch.cat([value.detach().reshape(1), torch.autograd.grad(value, strengths)[0]]))
    found["strengths of samples"] = largest(pairs[0] - pairs[1])
    nothing = torch.full_like(labels, -100)
    leaf = part.clone().requires_grad_()
    empty = maxsup_cross_entropy(leaf, nothing, group=rank.group, empty="zero")
    found["empty"] = float(empty.detach()) + largest(torch.autograd.grad(empty, leaf)[0])
    hollow = part.clone()
    hollow[4] = torch.nan  # an ignored row
    leaf = hollow.requires_grad_()
    value = maxsup_cross_entropy(leaf, labels, 0.3, group=rank.group)
    found["nan in an ignored row"] = float(value.detach() - whole) + largest(torch.autograd.grad(value, leaf)[0][4])
    compiled = torch.compile(maxsup_cross_entropy, backend="aot_eager", fullgraph=True)
    leaf, eager = part.clone().requires_grad_(), part.clone().requires_grad_()
    traced = compiled(leaf, labels, 0.3, group=rank.group)
    (expected,) = torch.autograd.grad(maxsup_cross_entropy(eager, labels, 0.3, group=rank.group), eager)
    found["compiled"] = float(traced.detach() - whole) + largest(torch.autograd.grad(traced, leaf)[0] - expected)
    return found


def gradient_of(value: Tensor, leaf: Tensor) -> Tensor:
    leaf.grad = None
    value.backward()
    assert leaf.grad is not None
    return leaf.grad


def spread_logits() -> dict[str, float]:
    """Logits as a DTensor over the classes, of which the first process holds more; gathers are counted."""
    tensor = pytest.importorskip("torch.distributed.tensor", reason="distributed tensors are public from torch 2.5")
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    logits = logits_of(7)[:, :11]
    labels, soft = labels_of(logits).clamp(max=10), soft_of(logits)
    leaf = tensor.distribute_tensor(logits, mesh, [tensor.Shard(-1)]).requires_grad_()
    criterion, found = MaxSupLoss(0.3), {}
    with CommDebugMode() as comm:
        values = [criterion(leaf, labels), criterion(leaf, soft)]
        gradients = [gradient_of(value, leaf) for value in values]
        with torch.no_grad():
            values.append(criterion.eval()(leaf, labels))
        values += [loss(leaf, labels) for loss in LOSSES.values()]
    found["gathers"] = sum(count for name, count in comm.get_comm_counts().items() if "gather" in str(name))
    whole = logits.clone().requires_grad_()
    expected = [criterion.train()(whole, labels), criterion(whole, soft)]
    for number, (value, gradient) in enumerate(zip(expected, gradients, strict=True)):
        (of_whole,) = torch.autograd.grad(value, whole)
        found[f"gradient {number}"] = largest(gradient.full_tensor() - of_whole)
    expected += [cross_entropy(whole, labels), *(loss(whole, labels) for loss in LOSSES.values())]
    for number, (value, of_whole) in enumerate(zip(values, expected, strict=True)):
        found[f"value {number}"] = float((value - of_whole).detach() / of_whole.detach())
    with CommDebugMode() as comm:
        confidence_penalty_cross_entropy(leaf, labels)
    found["no gather of a loss without parts"] = sum(comm.get_comm_counts().values()) == 0
    return found


def torchtitan() -> dict[str, float]:
    """The loss of the page on a part of the vocabulary, as a plain tensor and as a DTensor."""
    from torch.distributed.tensor import Shard, distribute_tensor

    found = {}
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    for shape in ((9,), (3, 4)):
        logits = drawn(*shape, NUM_CLASSES).float()
        labels = torch.randint(NUM_CLASSES, shape, generator=torch.Generator().manual_seed(1))
        labels[..., :2] = -100
        count = (labels != -100).sum()
        whole = logits.clone().requires_grad_()
        expected = maxsup_cross_entropy(whole.flatten(0, -2), labels.flatten(), 0.1)
        (of_whole,) = torch.autograd.grad(expected, whole)
        spread = distribute_tensor(logits, mesh, [Shard(-1)])
        for name, current, leaf in (("part", mesh, spread.to_local().clone()), ("dtensor", None, spread)):
            value, metrics = loss_of_the_page(mesh=current)(None)(leaf.requires_grad_(), labels, count)
            assert metrics == {}
            (gradient,) = torch.autograd.grad(value, leaf)
            local = gradient if current is not None else gradient.to_local()
            own = of_whole.chunk(2, dim=-1)[dist.get_rank()]
            found[f"{name} {shape}"] = float((value - expected).detach()) + largest(local - own)
    return found


def sentences() -> dict[str, str]:
    """What is said of wrong input, by every rank."""
    rank = Rank((7, 5))
    logits = logits_of(7)
    part, labels = logits[:, rank.part], labels_of(logits)
    second = part.clone().requires_grad_()
    wrong = {
        "outside": lambda: maxsup_cross_entropy(part, labels.masked_fill(labels == 7, 12), group=rank.group),
        "overlap": lambda: maxsup_cross_entropy(part, labels, group=rank.group, vocab_start=6 * rank.rank),
        "silent": lambda: maxsup_cross_entropy(
            part, labels, group=rank.group, vocab_start=None if rank.rank else rank.part.start
        ),
        "weights": lambda: maxsup_cross_entropy(part, labels, group=rank.group, weight=torch.ones(part.shape[1])),
        "alone": lambda: maxsup_cross_entropy(part, labels, vocab_start=3),
        "no group": lambda: maxsup_cross_entropy(part, labels, group="tp"),
        "not split": lambda: confidence_penalty_cross_entropy(part, labels, group=rank.group),
        "convention": lambda: label_smoothing_cross_entropy(part, labels, convention="k-1", group=rank.group),
        "weight mode": lambda: label_smoothing_cross_entropy(part, labels, weight_mode="torch", group=rank.group),
        "second derivative": lambda: torch.autograd.grad(
            torch.autograd.grad(
                maxsup_cross_entropy(second, labels, group=rank.group), second, create_graph=True
            )[0].sum(), second,
        ),
    }  # fmt: skip
    said = {}
    for name, call in wrong.items():
        try:
            call()
        except (ValueError, TypeError, RuntimeError) as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def work(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60))
    results: dict[str, Any] = {"errors": {}}
    for sizes in LAYOUTS:
        if len(sizes) == world:
            results["errors"] |= errors_of_a_layout(sizes)
    if world == 2:
        results |= {"counts": counts(), "kinds": kinds_of_calls(), "said": sentences()}
        results |= {"spread": spread_logits(), "torchtitan": torchtitan()}
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank of a world of two and of a world of three found; each world starts once."""
    found = []
    for world in WORLDS:
        folder = tmp_path_factory.mktemp(f"world{world}")
        mp.spawn(work, args=(world, str(folder)), nprocs=world)  # type: ignore[no-untyped-call]
        found += [torch.load(Path(folder, f"{rank}.pt")) for rank in range(world)]
    return found


def test_value_and_gradient_of_parts_are_those_of_the_whole(results: list[dict[str, Any]]):
    for of_a_rank in results:
        assert len(of_a_rank["errors"]) > 250
        worst = max(of_a_rank["errors"], key=lambda case: of_a_rank["errors"][case])
        assert of_a_rank["errors"][worst] <= 1e-12, worst


def test_at_most_three_small_collectives_forward_and_none_backward(results: list[dict[str, Any]]):
    for case, (forward, num_bytes, backward) in results[0]["counts"].items():
        assert forward <= 3, case
        assert backward == 0, case
        assert num_bytes <= 64, case


def test_logits_spread_over_the_classes_are_not_gathered(results: list[dict[str, Any]]):
    for of_a_rank in results[:2]:
        assert max(abs(number) for number in of_a_rank["spread"].values()) <= 1e-12, of_a_rank["spread"]


def test_the_loss_for_torchtitan_takes_parts_of_the_vocabulary(results: list[dict[str, Any]]):
    for of_a_rank in results[:2]:
        assert max(abs(number) for number in of_a_rank["torchtitan"].values()) <= 3e-6, of_a_rank["torchtitan"]


@pytest.mark.parametrize(
    "kind",
    [
        "order",
        "module",
        "evaluation",
        "bfloat16",
        "learnt strength",
        "strengths of samples",
        "empty",
        "nan in an ignored row",
        "compiled",
    ],
)
def test_parts_serve_every_kind_of_call(results: list[dict[str, Any]], kind: str):
    for of_a_rank in results[:2]:
        assert abs(of_a_rank["kinds"][kind]) <= (1e-4 if kind == "bfloat16" else 1e-12)


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("outside", "ValueError: target must hold classes from 0 to 11"),
        (
            "overlap",
            "ValueError: vocab_start and the sizes of the parts must cover each class once; got classes 0",
        ),
        ("silent", "ValueError: vocab_start must be given on all ranks"),
        ("weights", "ValueError: weight must have one entry per class of all processes"),
        ("alone", "ValueError: vocab_start must go with a group"),
        ("no group", "TypeError: group must be a process group"),
        ("not split", "ValueError: group must be left out beside this loss"),
        ("convention", "ValueError: group must be left out beside convention='k-1'"),
        ("weight mode", "ValueError: group must be left out beside"),
        ("second derivative", "RuntimeError: A loss whose classes are split over processes has first derivatives only"),
    ],
)
def test_wrong_parts_are_refused_in_a_sentence(results: list[dict[str, Any]], mistake: str, rule: str):
    for of_a_rank in results[:2]:
        assert of_a_rank["said"][mistake].startswith(rule)


def test_a_group_without_processes_is_refused():
    with pytest.raises(RuntimeError, match="group must belong to initialised processes"):
        maxsup_cross_entropy(torch.zeros(1, 3), torch.tensor([0]), group=object())
    with pytest.raises(RuntimeError, match="group must belong to initialised processes"):
        MaxSupLoss(group=object())
    with pytest.raises(TypeError, match="options of FocalLoss must be those it has; got group="):
        FocalLoss(group=object())
