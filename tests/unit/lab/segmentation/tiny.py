"""A recipe for masks that trains in a second."""

from maxsup.lab.core.config import Recipe, parse_recipe

TINY = {
    "data": {"name": "synthetic_masks", "image_size": 32, "options": {"num_train": 12, "num_test": 5, "size": 40}},
    "model": {
        "name": "upernet",
        "options": {"backbone": "tiny_vit", "channels": 8, "auxiliary_channels": 8, "backbone_options": {"depth": 4}},
    },
}


def tiny_recipe(*overrides: str) -> Recipe:
    return parse_recipe(TINY, overrides)
