"""``maxsup diagnose``: the damage report of a run, a checkpoint or bare arrays, or of several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maxsup.lab.cli.options import DataRootOption, JsonOption, refuse_strangers, split_words, with_data_root
from maxsup.lab.cli.printing import LEVEL_COLORS, print_indented, print_json
from maxsup.lab.cli.shorthands import argument, option

if TYPE_CHECKING:
    from maxsup.diagnosis import Diagnosis
    from maxsup.diagnosis.outputs import Outputs

    Found = tuple[Diagnosis, str, dict[str, str]]

# Outputs on training images show label smoothing best; if there are more than this, held-out images have to do.
_MAX_TRAINING_IMAGES = 20_000
_WORDS = "A run directory; or several of runs, files of logits, NETWORK@WEIGHTS, side by side. Changes to recipes."
_CLASS_NAMES = "One name per line, in the order of the outputs, or JSON of both."
_MODEL = "Network of a checkpoint: timm:resnet50, torchvision:resnet50, hf:PATH, FILE.pt2, FILE.onnx, or one of ours."
_WEIGHTS = "Checkpoint (default: published weights); for a run, which of its checkpoints."
_OOD = "Images of another kind: a data set or folder:PATH; for --logits a file of their logits."
_DATA = "Data for a checkpoint: folder:PATH with one folder per class, or any other data set."


def diagnose(
    words: Annotated[list[str] | None, argument("MODEL|KEY=VALUE", _WORDS)] = None,
    logits: Annotated[str | None, option("FILE", "Logits (N, K): .npy, .npz, .safetensors or .csv.")] = None,
    labels: Annotated[str | None, option("FILE", "True classes (N); by default those in the logits' file.")] = None,
    features: Annotated[str | None, option("FILE", "Inputs of the last layer (N, D), optional.")] = None,
    class_names: Annotated[str | None, option("FILE", _CLASS_NAMES)] = None,
    model: Annotated[str | None, option("NAME", _MODEL)] = None,
    weights: Annotated[str | None, option("FILE|last|best", _WEIGHTS)] = None,
    data: Annotated[str | None, option("NAME", _DATA)] = None,
    split: Annotated[str | None, option("train|val|test", "Split to diagnose (default: test).")] = None,
    ood: Annotated[str | None, option("FILE|NAME", _OOD)] = None,
    output: Annotated[Path, option("FILE", "Page to write.")] = Path("diagnosis.html"),
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Diagnose the outputs of a trained model.

    Gives a verdict on label smoothing, confidence on errors, calibration, selective prediction and collapse, and writes
    a page of all.
    """
    runs, overrides = split_words(words or [])
    overrides = with_data_root(overrides, data_root)
    if len(runs) > 1:
        refuse_strangers({"--logits": logits, "--features": features}, "one model", has_needed=False)
        settings = {"model": model, "data": data, "split": split, "weights": weights, "labels": labels}
        _print_several(
            runs, settings | {"class_names": class_names, "ood": ood, "overrides": overrides}, output, as_json
        )
        return
    run = runs[0] if runs else None
    inputs = {"a run": run, "--logits": logits, "--model": model}
    given, *others = [name for name, value in inputs.items() if value is not None] or ["none"]
    if others or given == "none":
        raise ValueError(
            "input must be one of a run, --logits with --labels, or --model with --data; "
            f"got {' and '.join([given, *others])}. Write for instance maxsup diagnose --logits l.npy --labels y.npy; "
            "maxsup train synthetic_compare --output runs/first makes a run to look at in seconds."
        )
    for owners, options in (
        (["--logits"], {"--labels": labels, "--features": features}),
        (["--logits", "--model"], {"--class-names": class_names}),
        (["--model"], {"--data": data}),
        (["a run", "--model"], {"--weights": weights, "--split": split, "KEY=VALUE": next(iter(overrides), None)}),
    ):
        refuse_strangers(options, " or ".join(owners), has_needed=given in owners, found=f"with {given}")
    if run is not None:
        found, source, facts = _of_run(run, split or "test", weights or "last", ood, overrides)
    elif logits is not None:
        found, source, facts = _of_arrays(logits, labels, features, class_names, ood)
    else:
        found, source, facts = _of_checkpoint(str(model), weights, data, split, class_names, ood, overrides)
    if as_json:
        print_json({**found.as_dict(), "source": source, "facts": facts, "page": str(output)})
    else:
        _print(found, facts, output)
    # At the end: the numbers are printed even if the page cannot be written.
    from maxsup.lab.core.files.storage import write_file
    from maxsup.lab.reports.diagnosis import diagnosis_page

    write_file(output, diagnosis_page(found, source=source, facts=facts).encode())


def _of_run(run: str, split: str, weights: str, ood: str | None, overrides: list[str]) -> Found:
    from maxsup.lab.analysis.model_outputs import run_novelties
    from maxsup.lab.analysis.outputs import RunOutputs
    from maxsup.lab.core.display import create_display
    from maxsup.lab.training.preprocessing import describe_transform

    with create_display() as progress:
        outputs = RunOutputs(run, weights=weights, overrides=overrides, progress=progress)
        others = None if ood is None else run_novelties(outputs, ood)
        judged = outputs.split(split)
        validation = outputs.split("val") if outputs.has_val and split != "val" else None
        has_few = split != "train" and len(outputs.bundle.train) <= _MAX_TRAINING_IMAGES
        training = outputs.split("train") if has_few else None
        found = _diagnosis(
            judged,
            validation=validation and (validation.logits, validation.labels),
            train=training and (training.logits, training.labels, training.features),
            weight=outputs.weight,
            bias=outputs.bias,
            ood=others if others is None or training is not None else others[0],
            recipe=" ".join(str(word) for word in (outputs.loss, outputs.strength) if word is not None),
        )
    recipe = outputs.recipe
    facts = {"Data": recipe.data.name, "Split": split, "Weights": weights, "Model": recipe.model.name}
    facts["Transform"] = describe_transform(recipe, outputs.bundle)
    return found, outputs.run.path.resolve().name, facts


def _of_arrays(
    logits: str, labels: str | None, features: str | None, class_names: str | None, ood: str | None
) -> Found:
    import torch

    from maxsup.diagnosis import diagnose, read_array_files
    from maxsup.diagnosis.array_files import file_contents

    # Logits are read in parts too small to share: several threads would mostly wait for one another.
    torch.set_num_threads(1)
    others = None if ood is None else file_contents(ood, "ood")[0]
    found = diagnose(*read_array_files(logits, labels, features, class_names), ood=others)
    return found, Path(logits).name, {}


def _of_checkpoint(
    model: str,
    weights: str | None,
    data: str | None,
    split: str | None,
    names: str | None,
    ood: str | None,
    overrides: list[str],
) -> Found:
    from maxsup.lab.analysis.foreign_checkpoints import checkpoint_outputs
    from maxsup.lab.core.display import create_display

    if data is None:
        raise ValueError(
            "--model must come with --data. "
            "Write for instance --model timm:resnet50 --weights file.safetensors --data folder:PATH."
        )
    with create_display() as progress:
        found = checkpoint_outputs(
            model, weights, data, split=split, class_names=names, ood=ood, overrides=overrides, progress=progress
        )
    diagnosis = _diagnosis(found.outputs, weight=found.weight, bias=found.bias, ood=found.ood)
    return diagnosis, f"{model}, {Path(weights).name if weights else 'its own weights'}", found.facts


def _print_several(words: list[str], settings: dict[str, Any], output: Path, as_json: bool) -> None:
    from maxsup.diagnosis.side_by_side import diagnose_side_by_side
    from maxsup.lab.analysis.model_outputs import outputs_of_models
    from maxsup.lab.core.display import create_display
    from maxsup.lab.core.files.storage import write_file
    from maxsup.lab.reports.side_by_side import side_by_side_page

    with create_display() as progress:
        models = outputs_of_models(words, **settings, progress=progress)
    heads = {name: each.head for name, each in models.items()}
    others = {name: each.ood for name, each in models.items() if each.ood is not None}
    found = diagnose_side_by_side({name: each.outputs for name, each in models.items()}, heads=heads, ood=others)
    facts = {name: each.facts for name, each in models.items()}
    if as_json:
        print_json({**found.as_dict(), "facts": facts, "page": str(output)})
    else:
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        console.print(repr(found), markup=False)
        console.print(f"\npage: {output}", markup=False)
    write_file(output, side_by_side_page(found, facts).encode())


def _diagnosis(outputs: Outputs, **settings: Any) -> Diagnosis:
    from maxsup.diagnosis import diagnose

    return diagnose(outputs.logits, outputs.labels, outputs.features, outputs.class_names, **settings)


def _print(found: Diagnosis, facts: dict[str, str], page: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    from maxsup.core.finding import LEVELS

    console = Console(highlight=False, soft_wrap=False)
    console.print(found.headline, markup=False)
    for name in ("Network", "Transform", "Class order", "Notes", "Unreadable"):
        if name in facts:
            console.print(f"{name.lower()}: {facts[name]}", markup=False, soft_wrap=True)
    for finding in found.findings:
        level = Text(LEVELS[finding.level], style=f"bold {LEVEL_COLORS[finding.level]}")
        console.print(Text.assemble("\n", level, "  ", (finding.topic, "bold")))
        print_indented(console, finding.sentence, 2)
        print_indented(console, f"Next: {finding.advice}", 2, style="dim")
    console.print(f"\npage: {page}", markup=False, soft_wrap=True)
