"""Names that a shell completes: of recipes, studies, losses, data, models and analyses."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from maxsup.cli.listings import KINDS, read_rows


def _completer(names: Callable[[], Iterable[str]], *, many: bool = False) -> Callable[[str], list[str]]:
    """The function that typer calls with what has been typed; with ``many``, names are separated by commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if many else ("", "", incomplete)
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def _listed(kind: str) -> Callable[[], list[str]]:
    return lambda: [row["name"] for row in read_rows(kind)]


def _studies() -> list[str]:
    from maxsup.studies.study_files import study_names

    return study_names()


complete_kind = _completer(lambda: KINDS)
complete_recipe = _completer(_listed("recipes"))  # of the package; a shell completes paths by itself
complete_study = _completer(_studies)
complete_data = _completer(_listed("data"))
complete_model = _completer(_listed("models"))  # those of timm are too many
complete_loss = _completer(_listed("losses"))
complete_losses = _completer(_listed("losses"), many=True)
complete_analyses = _completer(_listed("analyses"), many=True)
