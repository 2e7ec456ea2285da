"""From run directories to numbers in ``RUN/analysis`` and figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup import __version__
from maxsup.analysis.registry import ANALYSES, Result, check_options
from maxsup.analysis.result_files import result_path
from maxsup.core.checks import check_choice
from maxsup.core.display import Display, create_display
from maxsup.core.files.storage import json_text, kept_if_possible
from maxsup.core.interrupt import raise_if_noted
from maxsup.core.recipes import override_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxsup.analysis.outputs import RunOutputs
    from maxsup.data import PythonData
    from maxsup.models import Factory

PROTOCOL = 1
"""Version of how the numbers are made; it changes when they would."""


@dataclass(frozen=True)
class Analyzed:
    """What :func:`analyze` did.

    Args:
        results: By analysis, then by label of the run.
        skipped: Sentences about what did not apply.
        files: JSON and figures that were written.
    """

    results: dict[str, dict[str, Result]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def analyze(
    paths: str | Path | Sequence[str | Path],
    what: str | Sequence[str] | None = None,
    *,
    output: str | Path | None = None,
    split: str = "test",
    weights: str = "last",
    overrides: Iterable[str] | Mapping[str, Any] = (),
    data: str | PythonData | None = None,
    model: Factory | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    with_figures: bool = True,
    progress: Display | None = None,
) -> Analyzed:
    """Analyse runs and compare them.

    Args:
        paths: A run directory, or several.
        what: Names of analyses; if None, all but those that take as long as training. One that does not apply to a run
            is left out, which ``skipped`` says.
        output: Folder of the figures; by default that of the run, or ``figures`` here if there are several.
        split: What is judged: ``train``, ``val`` or ``test``.
        weights: ``last``, or ``best`` on the validation split.
        overrides: ``key.sub=value`` each, or a mapping of such keys, for all recipes, for instance where the data is
            now.
        data: Other data than the runs': a name, or data as :func:`maxsup.data.data_name` takes it, which is kept beside
            the first run.
        model: The function that made the network, where a run was trained with one in another session.
        options: Of each analysis by its name, for instance ``{"probe": {"target": "cifar100"}}``.
        with_figures: Draw them too; a report draws its own from the numbers.
        progress: Shows how far it is; chosen by the terminal by default.

    Returns:
        Results, what was left out, and the files. Numbers of a run are in ``RUN/analysis/WHAT-SPLIT.json``.
    """
    from maxsup.analysis.outputs import RunOutputs, label_runs
    from maxsup.data import data_name
    from maxsup.models import model_name
    from maxsup.training.reading import SPLITS

    paths, words = [paths] if isinstance(paths, str | Path) else paths, override_words(overrides)
    if model is not None:
        model_name(model)
    if data is not None and paths:
        words.append(f"data.name={data_name(data, Path(paths[0]).parent)}")
    check_choice("split", split, SPLITS)
    everything = [name for name in ANALYSES.names() if not ANALYSES[name].is_on_request]
    asked_for = [what] if isinstance(what, str) else what
    chosen = list(dict.fromkeys(everything if asked_for is None else asked_for))
    for name in chosen:
        ANALYSES[name]  # an unknown name is an error before anything is computed
    for name, values in (options or {}).items():
        check_options(name, values)
        if name not in chosen:
            raise ValueError(f"options must be of an analysis that is asked for; got {name!r}. Add it to what.")
    if not paths:
        raise ValueError("paths must name at least one run; got none. Give the directory that maxsup train printed.")
    unique = list({Path(path).resolve(): path for path in paths}.values())
    done = Analyzed()
    with progress or create_display() as display:
        runs = [RunOutputs(path, weights=weights, overrides=words, progress=display) for path in unique]
        for run, label in zip(runs, label_runs(runs), strict=True):
            run.label = label
        folder = Path(output) if output else runs[0].run.path / "figures" if len(runs) == 1 else Path("figures")
        for name in chosen:
            raise_if_noted()
            asked = dict((options or {}).get(name, {}))
            found = _compute(name, runs, split, asked, done)
            if found:
                done.results[name] = found
            if found and with_figures:
                # Figures are told apart as results are, so that other options or data do not overwrite them.
                result = result_path("", name, split=split, weights=weights, options=asked, data=runs[0].other_data)
                with kept_if_possible("figures are"):
                    done.files.extend(_save_figures(name, found, folder, result.stem.removeprefix(name)))
    return done


def draw_figures(name: str, results: Mapping[str, Result]) -> dict[str, Figure]:
    """Figures of an analysis from its results by label, as :func:`read_results` gives them."""
    return ANALYSES[name].draw(results)


def _compute(
    name: str, runs: Sequence[RunOutputs], split: str, options: dict[str, Any], done: Analyzed
) -> dict[str, Result]:
    analysis = ANALYSES[name]
    able, reasons = [], dict[str, list[str]]()
    for run in runs:
        if run.is_dense and not analysis.takes_masks:
            reason: str | None = "its data has masks, and this analysis is of images with one label each"
        else:
            reason = analysis.obstacle(run, split=split, **options)
        if reason is None:
            able.append(run)
        else:
            reasons.setdefault(reason, []).append(str(run.run.path))
    for reason, paths in reasons.items():
        done.skipped.append(f"{name} does not apply to {', '.join(paths)}: {reason}.")
    if not able:
        return {}
    shared = options | analysis.agree(able, split=split, **options)
    analysis.share(able, split=split, **shared)
    found = {}
    for run in able:
        result = {
            "analysis": name,
            "protocol": PROTOCOL,
            "version": __version__,
            "facts": run.facts(split),
            "options": shared,
            **analysis.compute(run, split=split, **shared),
        }
        path = result_path(run.run.path, name, split=split, weights=run.weights, options=options, data=run.other_data)
        with kept_if_possible("these numbers are"):
            run.run.write_json(path, result)
            done.files.append(path)
        # As a reader will find it: figures drawn now and from the file later are the same.
        found[run.label] = json.loads(json_text(result))
    return found


def _save_figures(name: str, results: Mapping[str, Result], folder: Path, suffix: str) -> list[Path]:
    from maxsup.figures.style import save

    figures = draw_figures(name, results)
    return [path for figure in figures for path in save(figures[figure], folder, f"{figure}{suffix}")]
