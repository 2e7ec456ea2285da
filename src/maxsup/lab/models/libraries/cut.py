"""Networks of other libraries, cut before their last linear layer: that layer is the head, the rest the body."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from maxsup.lab.models.base import Classifier


class CutClassifier(Classifier):
    """A network with features and logits, but without a feature map that this package can read.

    ``model`` returns logits, or an object with ``logits``; ``head`` is the dotted name of the linear layer that
    computes them.

    Example:
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 3))
        >>> model = CutClassifier(network, "3")
        >>> model.num_features, model(torch.zeros(2, 3, 2, 2)).shape
        (4, torch.Size([2, 3]))
    """

    body: Any  # networks of other libraries have no common type

    def __init__(self, model: Any, head: str) -> None:
        layer = model.get_submodule(head)
        parent, _, attribute = head.rpartition(".")
        setattr(model.get_submodule(parent), attribute, nn.Identity())
        super().__init__(model, layer, layer.in_features)
        self.head_name = head

    def feature_map(self, images: Tensor) -> Tensor:
        """Output of the cut network: one vector per image."""
        output = self.body(images)
        return getattr(output, "logits", output)

    def pool(self, feature_map: Tensor) -> Tensor:
        """Nothing is left to pool."""
        return feature_map

    def to_map(self, activations: Tensor) -> Tensor:
        """Raises, because there is no map."""
        raise self._no_map()

    def cam_layer(self) -> nn.Module:
        """Raises, because there is no map."""
        raise self._no_map()

    def adapted_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Names may be ours or those of the library."""
        return weights if self._has_own_names(weights) else self._rename(weights)

    def _has_own_names(self, weights: dict[str, Tensor]) -> bool:
        own = self.state_dict()
        return any(name in own and name.startswith("body.") for name in weights)

    def _rename(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the library under our names."""
        head = f"{self.head_name}."
        return {
            f"head.{name.removeprefix(head)}" if name.startswith(head) else f"body.{name}": value
            for name, value in weights.items()
        }

    def _no_map(self) -> ValueError:
        return ValueError(
            f"model must be one of ours or of timm for maps of image positions; got {type(self.body).__name__}. Choose "
            "for instance model.name=timm:resnet50."
        )


def last_linear(model: nn.Module, num_classes: int) -> str:
    """Dotted name of the last linear layer with ``num_classes`` outputs."""
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    names = [name for name, layer in layers.items() if layer.out_features == num_classes]
    if not names or "WithTeacher" in type(model).__name__:
        raise ValueError(
            f"model must end in one linear layer; got {type(model).__name__}. Export it with torch.export and give the "
            ".pt2 file to maxsup diagnose, or choose another."
        )
    return names[-1]
