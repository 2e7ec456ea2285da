"""``maxsup export``: a run as a folder to share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from maxsup.lab.cli.options import JsonOption
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import argument, flag, option

KINDS = ("card",)
_LISTING = ".export.json"


def export(
    folder: Annotated[Path, argument("DIR", "A run.")],
    to: Annotated[str, option("card", "A model card with its weights.")] = "card",
    output: Annotated[Path | None, option("DIR", "New folder (default: RUN/card).")] = None,
    weights: Annotated[str, option("last|best", "Weights of the last epoch, or the best on validation data.")] = "last",
    dataset: Annotated[str | None, option("OWNER/NAME", "The test data's name on the hub, for .eval_results.")] = None,
    licence: Annotated[
        str | None,
        typer.Option("--license", metavar="ID", help="Licence of the weights, such as apache-2.0."),
    ] = None,
    force: Annotated[
        bool, flag("--force", "Write into a folder that holds something; an earlier export is replaced.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Export a run as a folder to share.

    A card has weights, recipe and environment. Nothing is uploaded.
    """
    from maxsup.core.checks import check_choice

    check_choice("to", to, KINDS)
    from maxsup.lab.reports.card import write_card

    target = output or folder / to
    _require_empty(target, force=force)

    def write(place: Path) -> list[Path]:
        return write_card(folder, place, weights=weights, dataset=dataset, licence=licence)

    files = [str(path) for path in _in_place_of_earlier(target, write)]
    advice = f"Nothing was uploaded. To do so: hf upload OWNER/NAME {target}"
    show({"files": files}, [*files, advice], as_json=as_json)


def _require_empty(folder: Path, *, force: bool) -> None:
    """Raise where files of others would be overwritten."""
    from maxsup.lab.core.files.storage import UNFINISHED

    if not force and folder.is_dir() and any(entry.name != UNFINISHED for entry in folder.iterdir()):
        raise ValueError(
            f"output must be new or empty; got {str(folder)!r}, which holds something. "
            "Choose another --output, or add --force to write into it."
        )


def _in_place_of_earlier(folder: Path, write: Callable[[Path], list[Path]]) -> list[Path]:
    """Write all files, then remove what an earlier export left and this one did not write; files of others stay."""
    from maxsup.lab.core.files.reading import read_json
    from maxsup.lab.core.files.storage import filled_at_once, replace_bytes

    listing = folder / _LISTING
    earlier = read_json(listing).get("files", ()) if listing.is_file() else ()
    with filled_at_once(folder) as parts:
        names = [path.relative_to(parts) for path in write(parts)]
        kept = sorted(name.as_posix() for name in names)
        replace_bytes(parts / _LISTING, json.dumps({"files": kept}, indent=2).encode() + b"\n")
    for name in set(earlier) - set(kept):
        stale = folder / str(name)
        if stale.is_file() and folder.resolve() in stale.resolve().parents:
            stale.unlink()
    return [folder / name for name in names]
