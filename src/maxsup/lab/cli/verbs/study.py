"""``maxsup study``: the tables and figures of the paper, run and shown beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from maxsup.core.errors import counted
from maxsup.lab.cli import say, studies
from maxsup.lab.cli.examples import epilog
from maxsup.lab.cli.listings import complete_study
from maxsup.lab.cli.options import DataRootOption, JsonOption, NoLockOption, with_data_root, work_without_locks
from maxsup.lab.cli.printing import print_json, show
from maxsup.lab.cli.shorthands import argument, flag, option

if TYPE_CHECKING:
    from maxsup.lab.experiments.study_format import ScaleName

study = typer.Typer(
    help="The tables and figures of the paper: list, show, run, submit, watch, report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=epilog("study"),
)

_STUDY = "A name from `maxsup study ls`, a label of the paper, or a .yaml file."
_SCALE = "tiny: minutes, says nothing; small: real images, hours on two cores; full: the paper's setting."
_RELEASED = "ce=FILE ls=FILE maxsup=FILE, else the hub's; data.download=true and the like."
ScaleOption = Annotated[str, option("tiny|small|full", _SCALE)]


@study.command("ls", epilog=epilog("study ls"))
def list_studies(as_json: JsonOption = False) -> None:
    """List the studies that come with the package."""
    from maxsup.lab.experiments.study_files import describe_studies

    rows = describe_studies()
    width = max(len(row["name"]) for row in rows)
    lines = [f"{row['name']:<{width}}  {row['title']} ({row['label']})" for row in rows]
    show({"studies": rows}, lines, as_json=as_json)


@study.command("show", epilog=epilog("study show"))
def show_study(
    name: Annotated[str, argument("STUDY", _STUDY, complete_study)],
    scale: ScaleOption = "full",
    as_json: JsonOption = False,
) -> None:
    """Show what a study asks and trains."""
    from maxsup.core.checks import check_choice
    from maxsup.lab.experiments.study_files import load_study
    from maxsup.lab.experiments.study_format import SCALES

    loaded = load_study(name)
    check_choice("scale", scale, SCALES)
    size = cast("ScaleName", scale)
    runs = loaded.at(size).runs()
    data = list(dict.fromkeys(run.recipe.data.name for run in runs))
    if as_json:
        print_json({"study": loaded.model_dump(mode="json"), "num_runs": len(runs), "data": data})
        return
    plan = loaded.scale(size)
    lines = [f"{loaded.name} ({loaded.label}): {loaded.title}", loaded.question, ""]
    seeds = ", ".join(map(str, plan.seeds))
    lines += [f"scale {scale}: {counted(len(runs), 'run')}, recipe {plan.recipe}, seeds {seeds}"]
    lines += [plan.note] if plan.note else []
    lines += [f"data: {', '.join(data)}"]
    lines += ["", "the paper states:", *(f"  {text}" for text in loaded.stated), "", "left open, and done here:"]
    lines += [f"  {entry.what} {entry.choice}" for entry in loaded.unstated]
    lines += ["", "losses:", *(f"  {label}" for label in dict.fromkeys(run.recipe.loss.label for run in runs))]
    typer.echo("\n".join(lines))


@study.command("run", epilog=epilog("study run"))
def run(
    words: Annotated[
        list[str] | None, argument("STUDY|KEY=VALUE", "A study, and overrides for all of its runs.", complete_study)
    ] = None,
    scale: ScaleOption = "tiny",
    is_all: Annotated[bool, flag("--all", "Run every study of the package, one after another.")] = False,
    is_tuned: Annotated[
        bool, flag("--tune", "Add rows with strengths chosen on validation data (small scale only).")
    ] = False,
    output: Annotated[Path | None, option("DIR", "Default: studies/NAME-SCALE; with --all, its parent.")] = None,
    launcher: studies.LauncherOption = "local",
    job: studies.JobOption = None,
    workers: studies.WorkersOption = None,
    gpus_per_run: studies.GpusOption = None,
    mirror: studies.MirrorOption = None,
    dry_run: studies.DryRunOption = False,
    data_root: DataRootOption = None,
    no_lock: NoLockOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a study and print its table beside the published numbers.

    Run the same command again to resume.
    """
    work_without_locks(no_lock)
    studies.work_with_mirror(mirror)
    given = list(words or [])
    names = [] if is_all else given[:1]
    overrides = given[len(names) :]
    if not is_all and (not names or "=" in names[0]):
        raise ValueError("study run needs a study. Write a name from maxsup study ls, or --all.")
    from maxsup.lab.experiments.study_files import load_study, study_names

    chosen = studies.make_launcher(launcher, workers, job, gpus_per_run, is_dry=dry_run)
    found = [load_study(name) for name in names or study_names()]
    if is_all:
        found = [each for each in found if scale in each.scales]  # the small scale is optional
    from maxsup.lab.experiments.order import study_order

    orders = []
    for loaded in found:
        path = (output or Path("studies")) / f"{loaded.name}-{scale}" if is_all else output
        orders.append(study_order(loaded, scale, output=path, overrides=overrides, tune=is_tuned, data_root=data_root))
    if dry_run:
        for order in orders:
            studies.print_jobs(order, chosen, launcher, as_json=as_json)
        return
    from maxsup.lab.experiments.api import carry_out, carry_out_all

    if is_all:
        results = []
        for result in carry_out_all(orders, chosen):
            results.append(result)
            result.report(on_left_out=say)
            if not as_json:
                studies.print_summary(result.summary, result.path)
        if as_json:
            print_json({result.summary.name: result.summary.model_dump(mode="json") for result in results})
        studies.exit_with(results)
    else:
        studies.show_result(carry_out(orders[0], chosen), as_json=as_json)


@study.command("submit", epilog=epilog("study submit"))
def submit(
    words: Annotated[
        list[str], argument("STUDY|KEY=VALUE", "A study, and overrides for all of its runs.", complete_study)
    ],
    scale: ScaleOption = "tiny",
    is_tuned: Annotated[
        bool, flag("--tune", "Add rows whose strength is chosen on validation, small scale only.")
    ] = False,
    output: Annotated[Path | None, option("DIR", "By default studies/NAME-SCALE.")] = None,
    launcher: studies.LauncherOption = "local",
    job: studies.JobOption = None,
    workers: studies.WorkersOption = None,
    gpus_per_run: studies.GpusOption = None,
    mirror: studies.MirrorOption = None,
    data_root: DataRootOption = None,
) -> None:
    """Start a study and return.

    It runs in a process that outlives the terminal. Look at it with `maxsup study watch DIR`.
    """
    name, *overrides = words
    if "=" in name:
        raise ValueError("study submit needs a study. Write a name from maxsup study ls.")
    from maxsup.lab.experiments.study_files import load_study

    studies.make_launcher(launcher, workers, job, gpus_per_run)
    from maxsup.lab.experiments.detached import submit as start
    from maxsup.lab.experiments.order import study_order

    order = study_order(load_study(name), scale, output=output, overrides=overrides, tune=is_tuned, data_root=data_root)
    options = {
        "--scale": scale,
        "--output": order.output,
        "--launcher": launcher,
        "--workers": workers,
        "--gpus-per-run": gpus_per_run,
        "--mirror": mirror,
        "--data-root": data_root,
    }
    given = [word for key, value in options.items() if value is not None for word in (key, str(value))]
    given += [word for setting in job or [] for word in ("--job", setting)] + (["--tune"] if is_tuned else [])
    process = start(["study", "run", *words, *given], order.output)
    typer.echo(f"process {process} runs {name} into {order.output}\nlook at it: maxsup study watch {order.output}")


@study.command("watch", epilog=epilog("study watch"))
def watch(
    folder: Annotated[Path, argument("DIR", "What `maxsup study submit` or `run`, or `maxsup compare` fills.")],
    as_json: JsonOption = False,
) -> None:
    """Show the runs of a study until they end, then its table.

    Ctrl-C stops the watching, not the runs.
    """
    from maxsup.lab.experiments.detached import watch as look
    from maxsup.lab.experiments.execution.launch_display import create_view
    from maxsup.lab.experiments.result import StudyResult
    from maxsup.lab.experiments.summarize import summarize

    with create_view() as view:
        found, failed = look(folder, view.update)
    studies.show_result(StudyResult(found, summarize(found), failed), as_json=as_json)


@study.command("released", epilog=epilog("study released"))
def released(
    images: Annotated[Path, argument("DIR", "Validation images of ImageNet, any part, a folder for each class.")],
    weights: Annotated[list[str] | None, argument("LOSS=FILE|KEY=VALUE", _RELEASED)] = None,
    ood: Annotated[str | None, option("NAME", "Images of another kind: a data set or folder:PATH.")] = None,
    transfer: Annotated[
        str | None, option("NAME", "Data for a linear probe of the features: cifar10, folder:PATH.")
    ] = None,
    output: Annotated[Path, option("DIR", "Where the report goes.")] = Path("studies/released_weights"),
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the released weights of three losses on the same images."""
    from maxsup.lab.core.display import create_display
    from maxsup.lab.experiments.released_weights import run_released_weights, summary_lines

    files, settings = {}, [word for word in weights or [] if word.startswith("data.")]
    for word in [word for word in weights or [] if word not in settings]:
        loss, equals, file = word.partition("=")
        if not equals:
            raise ValueError(f"weights must be LOSS=FILE; got {word!r}. Write for instance maxsup=resnet50.ckpt.")
        files[loss] = Path(file)
    with create_display() as progress:
        compared, judgements = run_released_weights(
            images,
            files,
            output,
            ood=ood,
            transfer=transfer,
            overrides=with_data_root(settings, data_root),
            progress=progress,
        )
    lines = [*summary_lines(compared, judgements), f"page: {output / 'report.html'}"]
    claims = [
        {"number": each.claim.number, "first": each.claim.first, "second": each.claim.second, "verdict": each.verdict}
        for each in judgements
    ]
    show({"claims": claims, "page": str(output / "report.html")}, lines, as_json=as_json)


@study.command("report", epilog=epilog("study report"))
def report(
    folder: Annotated[Path, argument("DIR", "What `maxsup study run` or `maxsup compare` made.")],
    as_json: JsonOption = False,
) -> None:
    """Write table and report of a study again.

    They come from the runs that are there; nothing is trained.
    """
    from maxsup.lab.experiments.result import read_result

    studies.show_result(read_result(folder), as_json=as_json)
