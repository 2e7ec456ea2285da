"""Liger's kernel beside the plain loss, printed as JSON; run with TRITON_INTERPRET=1 where there is no GPU."""

import json
from typing import Any

import torch
from examples import liger_head
from torch import Tensor

from maxsup.functional import linear_maxsup_cross_entropy, maxsup_cross_entropy
from maxsup.integrations.liger import LigerMaxSupLoss, liger_maxsup_cross_entropy
from tests.integration.integrations.liger_cases import CASES
from tests.reference import losses as reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def made(has_bias: bool, ignore_index: int, is_head_frozen: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Rows that are right, wrong, tied for the top class and ignored."""
    generator = torch.Generator().manual_seed(2)
    target = torch.tensor([0, 3, ignore_index, 5, 10, 2, 7, ignore_index])
    hidden = 2 * torch.randn(8, 4, generator=generator)
    weight = torch.randn(11, 4, generator=generator)
    weight[9] = weight[4]
    hidden[3] = 5 * weight[4]
    target[1] = int((hidden[1] @ weight.t()).argmax())
    parts = {"hidden": hidden.to(DEVICE).requires_grad_()}
    parts["weight"] = weight.to(DEVICE).requires_grad_(not is_head_frozen)
    if has_bias:
        bias = torch.randn(11, generator=generator)
        bias[9] = bias[4]
        parts["bias"] = bias.to(DEVICE).requires_grad_(not is_head_frozen)
    return parts, target.to(DEVICE)


def difference(
    has_bias: bool = True, ignore_index: int = -100, is_head_frozen: bool = False, alpha: float = 0.3, **options: Any
) -> float:
    """The largest difference from the plain loss, in the value and in any gradient."""
    parts, target = made(has_bias, ignore_index, is_head_frozen)
    hidden, weight, bias = parts["hidden"], parts["weight"], parts.get("bias")
    values = [
        liger_maxsup_cross_entropy(hidden, weight, target, alpha, bias=bias, ignore_index=ignore_index, **options),
        maxsup_cross_entropy(
            torch.nn.functional.linear(hidden, weight, bias), target, alpha, ignore_index=ignore_index, **options
        ),
        linear_maxsup_cross_entropy(hidden, weight, target, alpha, bias=bias, ignore_index=ignore_index, **options),
    ]
    trained = [part for part in parts.values() if part.requires_grad]
    upstream = torch.linspace(0.5, 2.0, max(values[0].numel(), 1), device=DEVICE).reshape(values[0].shape)
    mine, *others = [torch.autograd.grad((value * upstream).sum(), trained) for value in values]
    gaps = [(values[0] - value).abs().max() for value in values[1:]]
    gaps += [(a - b).abs().max() for other in others for a, b in zip(mine, other, strict=True)]
    return float(torch.stack(gaps).max())


def evaluated() -> float:
    parts, target = made(True, -100, False)
    loss = LigerMaxSupLoss(0.3).eval()(parts["hidden"], parts["weight"], target, bias=parts["bias"])
    plain = torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(parts["hidden"], parts["weight"], parts["bias"]), target
    )
    return float((loss - plain).abs())


def refused() -> str:
    parts, target = made(True, -100, False)
    try:
        liger_maxsup_cross_entropy(parts["hidden"].detach(), parts["weight"], target)
    except ValueError as error:
        return str(error)
    return ""


def first_step_of_the_example() -> dict[str, float]:
    """What the example reports, and what the plain loop gives for the hidden states it starts with."""
    seen: list[tuple[Tensor, Tensor]] = []
    forward = LigerMaxSupLoss.forward

    def record(self: LigerMaxSupLoss, hidden: Tensor, weight: Tensor, target: Tensor, **options: Any) -> Tensor:
        if not seen:
            seen.append((torch.nn.functional.linear(hidden, weight, options.get("bias")).detach(), target))
        return forward(self, hidden, weight, target, **options)

    LigerMaxSupLoss.forward = record  # type: ignore[method-assign]
    losses = liger_head.main()
    [(logits, target)] = seen
    rows = zip(logits.double().tolist(), target.tolist(), strict=True)
    values = [reference.maxsup(z, y, alpha=0.1) for z, y in rows if y != -100]
    return {"first": losses[0], "last": losses[-1], "expected": sum(values) / len(values)}


def main() -> None:
    numbers = {
        "differences": {name: difference(**options) for name, options in CASES.items()},
        "evaluated": evaluated(),
        "refused": refused(),
        "example": first_step_of_the_example(),
    }
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
