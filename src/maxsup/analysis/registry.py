"""Analyses by name.

A module in this folder that files an :class:`Analysis` in ``ANALYSES`` is the whole registration: ``analyze``,
``maxsup analyze``, ``maxsup ls analyses`` and the contract tests find it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from maxsup.core.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxsup.analysis.outputs import RunOutputs

Result = dict[str, Any]
"""What an analysis says about a run, as JSON writes it: ``numbers``, ``data`` for the figures, and ``facts``."""


def _applies(run: RunOutputs, **options: Any) -> str | None:
    return None


def _unchanged(runs: Sequence[RunOutputs], **options: Any) -> dict[str, Any]:
    return {}


def _nothing(runs: Sequence[RunOutputs], **options: Any) -> None:
    pass


@dataclass(frozen=True)
class Analysis:
    """Numbers of a run, and pictures of several runs made from these numbers alone.

    Args:
        compute: ``compute(run, *, split, **options)`` gives ``numbers`` and ``data``, both ready for JSON.
        draw: Results by label become figures by name; it sees no run, so figures can be redrawn from files.
        obstacle: Why the analysis does not apply to a run, as the end of a sentence; None where it does.
        agree: Options that runs to be compared must share, settled by looking at all of them.
        share: Does for all runs at once what would cost more one by one, and keeps it where ``compute`` finds it.
        takes_masks: Whether a run whose data has masks can be analysed; most analyses are of labels of whole images.
        trains: Whether it may train a network, which is not tried out before the runs are made.
        is_on_request: Whether it is made only where it is named, because it takes as long as training.
        counts: Options that are whole numbers of at least 1; None too, where the option says so.
    """

    compute: Callable[..., Result]
    draw: Callable[[Mapping[str, Result]], dict[str, Figure]]
    obstacle: Callable[..., str | None] = _applies
    agree: Callable[..., dict[str, Any]] = _unchanged
    share: Callable[..., None] = _nothing
    takes_masks: bool = False
    trains: bool = False
    is_on_request: bool = False
    counts: tuple[str, ...] = ()

    @property
    def is_joint(self) -> bool:
        """Whether runs to be compared must be analysed in one call."""
        return self.agree is not _unchanged


ANALYSES: Registry[Analysis] = Registry(
    "analysis", function=attrgetter("compute"), reserved=("split",), package="maxsup.analysis.analyses"
)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise unless an analysis has all of these options and every option that counts something is at least 1.

    Example:
        >>> check_options("projection", {"clases": "confused"})
        Traceback (most recent call last):
        TypeError: option of analysis 'projection' must be one it has; got 'clases'. Did you mean 'classes'?
        >>> check_options("gradcam", {"num_images": 0})
        Traceback (most recent call last):
        ValueError: gradcam.num_images must be a whole number of at least 1; got 0. Leave it out for 6.
    """
    ANALYSES.check_options(name, options)
    analysis, defaults = ANALYSES[name], ANALYSES.options(name)
    for option, value in options.items():
        takes_none = str(inspect.signature(analysis.compute).parameters[option].annotation).endswith("| None")
        if option not in analysis.counts or (value is None and takes_none):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(
                f"{name}.{option} must be a whole number of at least 1; got {value!r}. "
                f"Leave it out for {defaults[option]}."
            )


def describe_analyses() -> list[dict[str, Any]]:
    """One entry an analysis: name, what it gives, label in the paper, options with their defaults."""
    return [{"name": name, **ANALYSES.facts(name), "options": ANALYSES.options(name)} for name in ANALYSES]
