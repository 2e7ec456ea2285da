"""Keys that recipes and run directories of earlier versions have, in the words of this one."""

from __future__ import annotations

from typing import Any

ADDED_KEYS = ("teacher",)
"""Sections that runs of 0.1.0 do not have; without them a recipe means what it did."""


def in_new_words(values: dict[str, Any]) -> dict[str, Any]:
    """Nested keys of a recipe, with a ratio in the place of the two absolute sizes that evaluation once had.

    Example:
        >>> in_new_words({"data": {"image_size": 224}, "augment": {"eval_resize": 256}})["augment"]
        {'crop_pct': 0.875, 'crop_mode': 'center', 'random_crop': False}
    """
    augment, data = values.get("augment"), values.get("data")
    if not isinstance(augment, dict) or not {"resize", "eval_resize"} & augment.keys():
        return values
    kept = {key: value for key, value in augment.items() if key not in ("resize", "eval_resize")}
    both, shorter = augment.get("resize"), augment.get("eval_resize")
    for side in (both, shorter):
        if side is not None and (isinstance(side, bool) or not isinstance(side, int) or side <= 0):
            raise ValueError(
                f"augment.crop_pct must take the place of resize and eval_resize; got {side!r}. Write for instance "
                "augment.crop_pct=0.875."
            )
    scaled = shorter or both
    size = data.get("image_size") if isinstance(data, dict) else None
    if scaled is not None and (not isinstance(size, int) or not 0 < size <= scaled):
        raise ValueError(
            f"augment.crop_pct must take the place of resize and eval_resize; got {scaled} with image_size={size}. "
            "Write the share of the scaled image's side that is seen, for instance augment.crop_pct=0.875."
        )
    kept["crop_pct"] = 1.0 if scaled is None else size / scaled
    kept["crop_mode"] = "squash" if both is not None and shorter is None else "center"
    kept["random_crop"] = both is not None and not augment.get("random_resized_crop", False)
    return {**values, "augment": kept}
