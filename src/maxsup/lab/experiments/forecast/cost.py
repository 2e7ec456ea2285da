"""What runs will need: GPU-hours, disk and data, estimated from their recipes alone.

Torch counts the operations of one forward pass on a model without storage. Training takes three times as many: one for
the outputs, two for the gradients. The speed of the GPU is an assumption, stated with the number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from maxsup.lab.analysis.outputs import MAX_IMAGES
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.data import DATASETS
from maxsup.lab.experiments.entries import DataChoice
from maxsup.lab.experiments.expansion import expand, planned_analyses
from maxsup.lab.experiments.schema import ScaleName, Study
from maxsup.lab.tasks import task_of_model

OPERATIONS_PER_SECOND = 30e12
"""What a data-centre GPU sustains on large convolutions and matrix products in half precision."""

_BACKWARD = 3
_NUM_SPLITS = 3
_FLOAT_BYTES = 4
# Archives, in GB; data sets that are missing here fit into memory or are your own.
_ARCHIVES = {
    "ade20k": 1.0, "cifar10": 0.2, "cifar100": 0.2, "cifar10_c": 2.9, "cifar10_lt": 0.2, "cub200": 1.2,
    "fashion_mnist": 0.1, "flowers102": 0.4, "food101": 5.0, "imagenet": 145.0, "pets": 0.8, "stanford_cars": 1.9,
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What some runs need."""

    gpu_hours: float  # of training, at OPERATIONS_PER_SECOND
    disk_gb: float  # checkpoints and outputs
    data: dict[str, float | None]  # GB of each data set to be fetched; None if unknown
    num_unknown: int  # runs that are not counted, because the size of their data or network is unknown

    def lines(self) -> list[str]:
        """The same in words."""
        speed = f"{OPERATIONS_PER_SECOND / 1e12:.0f} TFLOP/s"
        found = [
            f"{_rounded(self.gpu_hours)} GPU-hours of training: an estimate from the operations of each network, "
            f"which torch counts, three times for forward and backward, at {speed}. Small networks, float32 and slow "
            "data take several times as long; evaluation and analyses are not counted.",
            f"{_rounded(self.disk_gb)} GB of disk for checkpoints and outputs of all runs",
        ]
        wanted = [f"{name} ({'size unknown' if size is None else f'{size:g} GB'})" for name, size in self.data.items()]
        found += [f"data: {', '.join(wanted)}"] if wanted else ["data: none to be fetched"]
        if self.num_unknown:
            found.append(f"{self.num_unknown} of the runs not counted: the size of their data is not known here")
        return found


def study_cost(study: Study, scale: ScaleName) -> Cost:
    """What a study needs at a scale with its first choice of data, whether or not that is here."""
    runs = expand(study, scale, is_available=lambda choice: True)
    analyses = planned_analyses(study, scale, is_available=lambda choice: True)
    other = [analysis.data.name for analysis in analyses if analysis.data is not None]
    other += [load_recipe(str(name)).data.name for analysis in analyses if (name := analysis.options.get("recipe"))]
    return expected_cost([run.recipe for run in runs], other)


def expected_cost(recipes: Iterable[Recipe], other_data: Iterable[str] = ()) -> Cost:
    """GPU-hours, disk and data of runs with these recipes, and data that only analyses need.

    Example:
        >>> from maxsup.lab.core.recipes import load_recipe
        >>> cost = expected_cost([load_recipe("imagenet_resnet", ["model.name=resnet50", "epochs=90"])])
        >>> round(cost.gpu_hours), cost.data
        (26, {'imagenet': 145.0})
    """
    recipes = list(recipes)
    costs = [_run_cost(recipe.model_dump_json(exclude={"loss", "seed"})) for recipe in recipes]
    known = [cost for cost in costs if cost is not None]
    names = dict.fromkeys([*(recipe.data.name for recipe in recipes), *other_data])
    data = {name: _ARCHIVES.get(name) for name in names if not DataChoice(name=name).is_embedded}
    seconds, size = (sum((cost[side] for cost in known), 0.0) for side in (0, 1))
    return Cost(seconds / 3600, size / 1e9, data, len(costs) - len(known))


@lru_cache(maxsize=64)
def _run_cost(text: str) -> tuple[float, float] | None:
    """Seconds and bytes of one run; None if the size of its data or network is unknown."""
    from torch import device, zeros
    from torch.utils.flop_counter import FlopCounterMode

    recipe = Recipe.model_validate_json(text)
    facts = DATASETS.facts(recipe.data.name)["images"] if recipe.data.name in DATASETS.names() else ""
    numbers = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", facts)]
    classes, shape = re.search(r"([\d,]+) classes", facts), re.search(r"(\d)x(\d+)x\d+", facts)
    size = recipe.data.image_size or (int(shape[2]) if shape else None)
    if classes is None or size is None:
        return None
    num_classes, channels = int(classes[1].replace(",", "")), int(shape[1]) if shape else 3
    try:
        with device("meta"):
            task = task_of_model(recipe.model.name)
            model = task.create_network(recipe.model, num_classes, in_channels=channels, image_size=size).eval()
            with FlopCounterMode(display=False) as counter:
                model(zeros(1, channels, size, size))
    except (ImportError, NotImplementedError, RuntimeError):  # not installed, or a network that looks at values
        return None
    num_images = recipe.epochs * numbers[0] if recipe.iterations is None else recipe.iterations * recipe.batch_size
    seconds = _BACKWARD * counter.get_total_flops() * num_images / OPERATIONS_PER_SECOND
    weights = sum(each.numel() for each in model.parameters()) * _FLOAT_BYTES
    copies = 1 + (1 if recipe.optimizer.name == "sgd" else 2) + (recipe.ema.decay > 0)
    width = num_classes + getattr(model, "num_features", 0)
    outputs = _NUM_SPLITS * min(numbers[0], MAX_IMAGES) * width * _FLOAT_BYTES
    return seconds, 2.0 * weights * copies + outputs


def _rounded(number: float) -> str:
    """Two significant digits: more would promise too much.

    Example:
        >>> _rounded(1834.2), _rounded(0.0314)
        ('about 1,800', 'less than 0.1')
    """
    return "less than 0.1" if number < 0.1 else f"about {float(f'{number:.2g}'):,.12g}"
