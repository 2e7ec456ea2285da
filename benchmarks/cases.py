"""The batches that losses are measured on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maxsup.lab.bench.baselines import NO_LABEL

# A compilation takes seconds, so the peers that nobody has to beat are compiled in one shape only.
COMPILED = ("torch label smoothing", "naive MaxSup", "maxsup")
ALL_COMPILED = (*COMPILED, "torch cross-entropy", "timm label smoothing", "torch-uncertainty MaxSup")


@dataclass(frozen=True)
class Case:
    """Shape and type of the logits, the label of samples that do not count, and which losses are compiled."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    ignore_index: int = NO_LABEL
    compiled: tuple[str, ...] = COMPILED

    @property
    def name(self) -> str:
        size = "x".join(str(length) for length in self.shape)
        ignored = "" if self.ignore_index == NO_LABEL else f", ignore_index={self.ignore_index}"
        return f"{size} {self.dtype}{ignored}"

    @property
    def num_classes(self) -> int:
        return self.shape[1]

    @property
    def layout(self) -> str:
        return "rows" if len(self.shape) == 2 else "dense"

    def logits(self, scale: float) -> Tensor:
        """Normal logits of a given spread, the same at every call."""
        noise = torch.randn(self.shape, generator=torch.Generator().manual_seed(0))
        return noise.mul_(scale).to(getattr(torch, self.dtype)).requires_grad_()

    def target(self) -> Tensor:
        """Labels; a tenth of them is ignored where the case has a label for that."""
        generator = torch.Generator().manual_seed(1)
        shape = (self.shape[0], *self.shape[2:])
        labels = torch.randint(self.num_classes, shape, generator=generator)
        if self.ignore_index != NO_LABEL:
            labels[torch.rand(shape, generator=generator) < 0.1] = self.ignore_index
        return labels


SHAPES = ((128, 10), (128, 100), (256, 1000), (2048, 1000), (1024, 32000), (256, 128256))
DENSE = (4, 150, 128, 128)
CASES = (
    *(
        Case(shape, dtype, compiled=ALL_COMPILED if shape == (2048, 1000) else COMPILED)
        for shape in SHAPES
        for dtype in ("float32", "bfloat16")
    ),
    Case(DENSE),
    Case(DENSE, ignore_index=255),
)
QUICK_CASES = (
    Case((32, 10), compiled=()),
    Case((64, 1000), compiled=("maxsup",)),
    Case((64, 1000), "bfloat16", compiled=()),
    Case((16, 32000), compiled=()),
    Case((1, 150, 32, 32), ignore_index=255, compiled=()),
)
