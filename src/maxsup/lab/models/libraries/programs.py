"""Networks that show only their outputs: exported programs (``.pt2``) and ONNX files.

They run as they are. A file of torch.export is a program: open only files that you trust.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxsup.core.errors import StorageError
from maxsup.core.installation import imported

PROGRAM_SUFFIXES = (".pt2", ".onnx")


class Program(nn.Module):
    """Images to logits, in batches of the size that the file was made for.

    ``run`` turns images into logits; ``shape`` is the ``(B, C, H, W)`` that it expects, None where it takes any number.
    """

    def __init__(self, run: Callable[[Tensor], Tensor], shape: tuple[int | None, ...]) -> None:
        super().__init__()
        self.run, self.shape = run, shape

    @property
    def image_size(self) -> int | None:
        """Side of the images, None if any will do."""
        return self.shape[2]

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(B, K)``; if the file takes one batch size only, the last batch is filled up."""
        size = self.shape[0]
        if size is None:
            return self.run(images)
        parts = []
        for part in images.split(size):
            filled = torch.cat([part, part[-1:].expand(size - len(part), -1, -1, -1)])
            parts.append(self.run(filled)[: len(part)])
        return torch.cat(parts)


def load_program(path: Path) -> Program:
    """The network in a ``.pt2`` or ``.onnx`` file."""
    if not path.is_file():
        raise StorageError(
            f"model must be a file that is there; got {str(path)!r}. Check the path.", code="model-not-found"
        )
    try:
        return _onnx(path) if path.suffix == ".onnx" else _load_exported(path)
    except ImportError:
        raise
    except Exception as error:  # both formats break in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StorageError(
            f"model must be a readable {path.suffix} file with one input, images (B, C, H, W); got {str(path)!r} "
            f"({reason}). Export it again.",
            code="damaged-file",
        ) from error


def _load_exported(path: Path) -> Program:
    program = torch.export.load(path)
    (name,) = program.graph_signature.user_inputs
    node = next(node for node in program.graph.nodes if node.name == name)
    module = program.module()
    return Program(lambda images: _logits(module(images)), _shape(node.meta["val"].shape))


def _onnx(path: Path) -> Program:
    runtime = imported("onnxruntime", "files of .onnx", "onnx")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.get_inputs()
    first = session.get_outputs()[0].name
    return Program(
        lambda images: torch.from_numpy(session.run([first], {wanted.name: images.cpu().numpy()})[0]),
        _shape(wanted.shape),
    )


def _shape(sides: Any) -> tuple[int | None, ...]:
    if len(sides) != 4:
        raise ValueError(f"an input of {len(sides)} dimensions")
    return tuple(side if type(side) is int else None for side in sides)


def _logits(output: Any) -> Tensor:
    """The logits in the output of a program: a tensor, a tuple that begins with one, or a mapping."""
    if isinstance(output, dict):
        output = output.get("logits", next(iter(output.values())))
    elif isinstance(output, tuple | list):
        output = output[0]
    return getattr(output, "logits", output)
