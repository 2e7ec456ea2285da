"""The registry of analyses.

To add an analysis, register an :class:`Analysis` in ``ANALYSES`` in a module of ``analyses``. ``analyze``,
``maxsup analyze``, ``maxsup ls analyses`` and the contract tests find it. A complete one, for a number of
``metrics/facts.py``::

    def compute(run: RunOutputs, *, split: str) -> Result:
        outputs = run.split(split)
        nll = metrics.negative_log_likelihood(outputs.logits, outputs.labels)
        return {"numbers": numbers({"nll": nll}), "data": {}}


    ANALYSES.register("surprise", summary="mean surprise", paper="-")(Analysis(compute, draw=lambda results: {}))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from maxsup.core.checks import check_count
from maxsup.core.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxsup.lab.analysis.outputs import RunOutputs

Result = dict[str, Any]
"""The result of an analysis of a run, ready for JSON: ``numbers``, ``data`` for the figures, and ``facts``.

``compute`` returns the first two; ``analyze`` adds ``facts`` of the run, the options and the version.
"""


def _none(runs: Any, **options: Any) -> None:
    pass


def _unchanged(runs: Sequence[RunOutputs], **options: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Analysis:
    """An analysis: compute the numbers of one run, and draw figures of several runs from these numbers.

    Args:
        compute: ``compute(run, *, split, **options)`` returns ``numbers``, made by
            :func:`maxsup.metrics.facts.numbers`, and ``data``, both ready for JSON.
        draw: Draw figures by name from results by label. It gets no run, so figures can be redrawn from files.
        obstacle: Return why the analysis does not apply to a run, as the end of a sentence, or None if it applies.
        agree: Choose options that compared runs must share, from all runs.
        share: Compute for all runs together what is cheaper that way, and cache it for ``compute``.
        tasks: Names of the tasks whose runs it applies to.
        trains: May train a network, so it is not rehearsed before the runs start.
        is_on_request: Runs only if named, because it takes as long as training.
        counts: Options that are whole numbers of at least 1, or None if their type allows it.
    """

    compute: Callable[..., Result]
    draw: Callable[[Mapping[str, Result]], dict[str, Figure]]
    obstacle: Callable[..., str | None] = _none
    agree: Callable[..., dict[str, Any]] = _unchanged
    share: Callable[..., None] = _none
    tasks: tuple[str, ...] = ("classification",)
    trains: bool = False
    is_on_request: bool = False
    counts: tuple[str, ...] = ()

    @property
    def is_joint(self) -> bool:
        """True if compared runs must be analysed in one call."""
        return self.agree is not _unchanged


ANALYSES: Registry[Analysis] = Registry(
    "analysis",
    function=attrgetter("compute"),
    reserved=("split",),
    package="maxsup.lab.analysis.analyses",
    group="maxsup.analyses",
)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise unless an analysis has all these options and its counts are at least 1.

    Example:
        >>> check_options("projection", {"clases": "confused"})
        Traceback (most recent call last):
        TypeError: option of analysis 'projection' must be one it has; got 'clases'. Did you mean 'classes'?
        >>> check_options("gradcam", {"num_images": 0})
        Traceback (most recent call last):
        ValueError: gradcam.num_images must be a whole number of at least 1; got 0. Leave it out for 6.
    """
    ANALYSES.check_options(name, options)
    parameters = inspect.signature(ANALYSES[name].compute).parameters
    for option in ANALYSES[name].counts:
        takes_none = str(parameters[option].annotation).endswith("| None")
        if option in options and not (options[option] is None and takes_none):
            fix = f"Leave it out for {parameters[option].default}."
            check_count(f"{name}.{option}", options[option], fix=fix)


def computed(name: str, run: RunOutputs, *, split: str, **options: Any) -> Result:
    """What an analysis gives for a run; raise unless that is numbers and data."""
    found = ANALYSES[name].compute(run, split=split, **options)
    fix = 'Return {"numbers": maxsup.metrics.facts.numbers({...}), "data": {...}}.'
    if not isinstance(found, dict) or set(found) != {"numbers", "data"}:
        given = sorted(map(str, found)) if isinstance(found, dict) else type(found).__name__
        raise TypeError(f"compute of analysis {name!r} must return numbers and data; got {given}. {fix}")
    entries = found["numbers"]
    if not isinstance(entries, dict):
        raise TypeError(f"numbers of analysis {name!r} must be a dict; got {type(entries).__name__}. {fix}")
    for number, entry in entries.items():
        if not isinstance(entry, dict) or not {"value", "direction", "unit"} <= set(entry):
            raise TypeError(
                f"numbers of analysis {name!r} must have a value, a direction and a unit each; got {entry!r} for "
                f"{number!r}. {fix}"
            )
    return found


def describe_analyses() -> list[dict[str, Any]]:
    """Return one entry per analysis: name, summary, label in the paper, options with their defaults."""
    return [{"name": name, **ANALYSES.facts(name), "options": ANALYSES.options(name)} for name in ANALYSES]
