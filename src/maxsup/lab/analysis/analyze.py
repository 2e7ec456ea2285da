"""Run analyses on run directories: write numbers to ``RUN/analysis`` and draw figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup import __version__
from maxsup.core.checks import check_choice
from maxsup.lab.analysis.registry import ANALYSES, Result, check_options, computed
from maxsup.lab.analysis.result_files import result_path
from maxsup.lab.core.config import option_text
from maxsup.lab.core.display import Display, create_display
from maxsup.lab.core.files.records import PROTOCOL
from maxsup.lab.core.files.storage import json_text, kept_if_possible
from maxsup.lab.core.interrupt import raise_if_noted
from maxsup.lab.core.recipes import override_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxsup.lab.analysis.outputs import RunOutputs
    from maxsup.lab.data import PythonData
    from maxsup.lab.models import Factory


@dataclass(frozen=True)
class Analyzed:
    """Results, skipped analyses and written files of :func:`analyze`.

    Args:
        results: By analysis, then by label of the run.
        skipped: A sentence for each analysis that did not apply.
        files: The JSON and figure files written.
    """

    results: dict[str, dict[str, Result]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def analyze(
    paths: str | Path | Sequence[str | Path | RunOutputs],
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
    """Analyse runs and compare them. The numbers of a run go to ``RUN/analysis/WHAT-SPLIT.json``.

    Args:
        paths: One or more run directories, or open runs with their own ``weights`` and ``overrides``.
        what: Names of analyses; by default all but those that take as long as training. Analyses that do not apply to
            a run are skipped, with the reason in ``skipped``.
        output: Folder of the figures; by default ``RUN/figures``, or ``figures`` here for several runs.
        split: ``train``, ``val`` or ``test``.
        weights: ``last``, or ``best`` on the validation split.
        overrides: Changes ``key.sub=value`` of all recipes, or a mapping of such keys, for instance the data root.
        data: Data to use instead of the runs': a name, or data as :func:`maxsup.lab.data.data_name` takes it, which is
            saved beside the first run.
        model: The function that made the network, if a run was trained with one in another session.
        options: Options by analysis, for instance ``{"probe": {"target": "cifar100"}}``.
        with_figures: Draw figures too. A report draws its own from the numbers.
        progress: Progress display; by default chosen for the terminal.
    """
    from maxsup.lab.analysis.outputs import RunOutputs
    from maxsup.lab.data import data_name
    from maxsup.lab.figures.style import save
    from maxsup.lab.models import model_name
    from maxsup.lab.training.reading import SPLITS

    paths, words = [paths] if isinstance(paths, str | Path) else paths, override_words(overrides)
    if model is not None:
        model_name(model)
    if data is not None and paths:
        words.append(f"data.name={data_name(data, _path(paths[0]).parent)}")
    check_choice("split", split, SPLITS)
    if what is None:
        what = [name for name in ANALYSES if not ANALYSES[name].is_on_request]
    chosen = list(dict.fromkeys([what] if isinstance(what, str) else what))
    for name in chosen:
        ANALYSES[name]  # raise for an unknown name before anything is computed
    options = options or {}
    for name, values in options.items():
        check_options(name, values)
        if name not in chosen:
            raise ValueError(f"options must be of a requested analysis; got {name!r}. Add it to what.")
    if not paths:
        raise ValueError("paths must name at least one run: give the directory that maxsup train printed.")
    unique = list({_path(path).resolve(): path for path in paths}.values())
    done = Analyzed()
    with progress or create_display() as display:
        runs = [
            path
            if isinstance(path, RunOutputs)
            else RunOutputs(path, weights=weights, overrides=words, progress=display)
            for path in unique
        ]
        for run, label in zip(runs, label_runs(runs), strict=True):
            run.label = label
        folder = Path(output) if output else runs[0].run.path / "figures" if len(runs) == 1 else Path("figures")
        for name in chosen:
            raise_if_noted()
            asked = dict(options.get(name, {}))
            found = _compute(name, runs, split, asked, done)
            if not found:
                continue
            done.results[name] = found
            if with_figures:
                # Name figures like results, so that other options or data do not overwrite them.
                result = result_path(
                    "", name, split=split, weights=runs[0].weights, options=asked, data=runs[0].other_data
                )
                suffix = result.stem.removeprefix(name)
                with kept_if_possible("figures are"):
                    for stem, figure in draw_figures(name, found).items():
                        done.files.extend(save(figure, folder, f"{stem}{suffix}"))
    return done


def _path(run: str | Path | RunOutputs) -> Path:
    return Path(run) if isinstance(run, str | Path) else run.run.path


def draw_figures(name: str, results: Mapping[str, Result]) -> dict[str, Figure]:
    """Draw the figures of an analysis from its results by label, as :func:`read_results` returns them."""
    return ANALYSES[name].draw(results)


def label_runs(runs: Sequence[RunOutputs]) -> list[str]:
    """Return a distinct label for each run: its loss and, if runs share it, the settings in which they differ."""
    from maxsup.lab.figures.style import loss_look

    labels = [loss_look(run.loss).label for run in runs]
    facets = [
        (
            "" if run.strength is None else option_text(run.strength),
            *(run.recipe.model.name, run.recipe.data.name, f"seed {run.recipe.seed}", run.weights),
            *(run.run.path.resolve().name, str(run.run.path)),
        )
        for run in runs
    ]
    for facet in zip(*facets, strict=True):
        pairs = set(zip(labels, facet, strict=True))
        counts = Counter(label for label, _ in pairs)
        if len(counts) == len(labels):
            break
        labels = [
            f"{label} {value}".strip() if counts[label] > 1 else label
            for label, value in zip(labels, facet, strict=True)
        ]
    return labels


def _compute(
    name: str, runs: Sequence[RunOutputs], split: str, options: dict[str, Any], done: Analyzed
) -> dict[str, Result]:
    analysis = ANALYSES[name]
    able, reasons = [], dict[str, list[str]]()
    for run in runs:
        if run.task not in analysis.tasks:
            reason: str | None = f"it is a run of {run.task}, and this analysis is of {' and '.join(analysis.tasks)}"
        else:
            reason = analysis.obstacle(run, split=split, **options)
        if reason is None:
            able.append(run)
        else:
            reasons.setdefault(reason, []).append(str(run.run.path))
    done.skipped.extend(f"{name} does not apply to {', '.join(paths)}: {why}." for why, paths in reasons.items())
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
            **computed(name, run, split=split, **shared),
        }
        path = result_path(run.run.path, name, split=split, weights=run.weights, options=options, data=run.other_data)
        with kept_if_possible("these numbers are"):
            run.run.write_json(path, result)
            done.files.append(path)
        # Round-trip through JSON, so that figures drawn now and later from the file are the same.
        found[run.label] = json.loads(json_text(result))
    return found
