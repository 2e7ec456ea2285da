"""Keys that recipes of earlier versions have, translated to those of this one."""

from __future__ import annotations

from typing import Any

ADDED_KEYS = ("log_every", "teacher")
"""Keys that runs of 0.1.0 may lack; without them a recipe means what it did."""


def in_new_words(values: dict[str, Any]) -> dict[str, Any]:
    """Nested keys of a recipe, with a ratio in place of the two absolute sizes that evaluation once had.

    Example:
        >>> in_new_words({"data": {"image_size": 224}, "augment": {"eval_resize": 256}})["augment"]
        {'crop_pct': 0.875, 'crop_mode': 'center', 'random_crop': False}
    """
    augment, data = values.get("augment"), values.get("data")
    if not isinstance(augment, dict) or not {"resize", "eval_resize"} & augment.keys():
        return values
    both, shorter = augment.get("resize"), augment.get("eval_resize")
    size = data.get("image_size") if isinstance(data, dict) else None
    sides = [side for side in (shorter, both) if side is not None]
    are_sound = all(type(side) is int and side > 0 for side in sides)
    if not are_sound or (sides and not (isinstance(size, int) and 0 < size <= sides[0])):
        raise ValueError(
            "augment.crop_pct must take the place of resize and eval_resize; "
            f"got resize={both!r}, eval_resize={shorter!r} and image_size={size!r}. "
            "Write the share of the scaled image's side that is seen, for instance augment.crop_pct=0.875."
        )
    kept = {key: value for key, value in augment.items() if key not in ("resize", "eval_resize")}
    kept["crop_pct"] = size / sides[0] if sides else 1.0
    kept["crop_mode"] = "squash" if both is not None and shorter is None else "center"
    kept["random_crop"] = both is not None and not augment.get("random_resized_crop", False)
    return {**values, "augment": kept}
