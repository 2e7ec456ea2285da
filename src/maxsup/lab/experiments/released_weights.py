"""The authors' own networks on ImageNet's validation images, without training: the study ``released_weights``.

Three ResNet-50 (cross-entropy, label smoothing, MaxSup) are judged on the same images, any part of the 50,000. Images
are the unit of every interval: it says what other images would change, not what another training would.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maxsup.core.errors import DataError, StorageError
from maxsup.core.installation import imported
from maxsup.diagnosis.side_by_side import SideBySide, diagnose_side_by_side
from maxsup.lab.analysis.model_outputs import outputs_of_models
from maxsup.lab.analysis.transfer import Transfer
from maxsup.lab.core.display import Display
from maxsup.lab.core.files.storage import json_text, write_file
from maxsup.lab.models.libraries.hf_models import hub_has
from maxsup.lab.reports.blocks import Block, Column, Section, Table, Text
from maxsup.lab.reports.side_by_side import side_by_side_page

REPOSITORY = "zhouyuxuanyx/MaxSup-Regularized-ResNet50"
NETWORK = "torchvision:resnet50"
TRANSFORM = (
    "data.image_size=256",
    "augment.crop_pct=0.875",
    "augment.crop_mode=center",
    "augment.interpolation=bilinear",
    "augment.mean=[0.485, 0.456, 0.406]",
    "augment.std=[0.229, 0.224, 0.225]",
)
"""The released validation: the middle 224/256 of the shorter side at 256 pixels, normalised by ImageNet's mean."""

LOSSES = {"ce": "Baseline", "ls": "Label Smoothing", "maxsup": "MaxSup"}
_BLOCK_BYTES = 1 << 20
_WEIGHTS = (".ckpt", ".pth", ".pt", ".bin", ".safetensors")

# Validation images, as the paper prints them.
PUBLISHED: dict[str, tuple[str, dict[str, float]]] = {
    "accuracy": ("tab:comparison-new", {"ce": 0.7641, "ls": 0.7691, "maxsup": 0.7769}),
    "within": ("tab:feature2", {"ce": 0.3313, "ls": 0.2543, "maxsup": 0.2998}),
    "total": ("tab:feature2", {"ce": 0.5949, "ls": 0.4718, "maxsup": 0.5962}),
    "r_squared": ("tab:feature2", {"ce": 0.4451, "ls": 0.4611, "maxsup": 0.4972}),
}
# Of a linear probe on CIFAR-10.
TRANSFER_PUBLISHED = ("tab:validation_performance", {"ce": 0.814, "ls": 0.746, "maxsup": 0.810})
# Numbers of ours beside them.
_OURS = (
    *("confidence_correct", "confidence_wrong", "ece_before", "ece_after", "nll_before", "nll_after", "temperature"),
    *("aurc", "auroc_before", "nc1", "nc2_norm", "nc2_angle", "nc3", "nc4"),
)
_OF_OTHERS = tuple(
    f"ood_{name}_{score}" for score in ("max_probability", "max_logit", "energy") for name in ("auroc", "fpr95")
)


@dataclass(frozen=True)
class Claim:
    """A difference that the paper claims: of ``second`` minus ``first``, ``sign`` +1 for higher and -1 for lower."""

    number: str
    first: str
    second: str
    sign: int
    margin: float
    source: str


CLAIMS = (
    Claim("accuracy", "ls", "maxsup", 1, 0.003, "tab:comparison-new"),
    Claim("within", "ls", "maxsup", 1, 0.005, "tab:feature2"),
    Claim("within", "ce", "ls", -1, 0.005, "tab:feature2"),
    Claim("r_squared", "ls", "maxsup", 1, 0.01, "tab:feature2"),
    Claim("confidence_wrong", "ls", "maxsup", -1, 0.01, "fig:logit-analysis"),
    Claim("ece_before", "ls", "maxsup", -1, 0.005, "ours: as trained"),
    Claim("ece_after", "ls", "maxsup", -1, 0.005, "ours: after a temperature"),
)
"""Claims of the protocol that these networks can answer, with its margins."""


@dataclass(frozen=True)
class Judgement:
    """What the images say of a claim."""

    claim: Claim
    value: float | None
    low: float | None
    high: float | None
    verdict: str


def run_released_weights(
    images: Path,
    files: Mapping[str, Path],
    output: Path,
    *,
    ood: str | None = None,
    transfer: str | None = None,
    overrides: Sequence[str] = (),
    progress: Display | None = None,
) -> tuple[SideBySide, list[Judgement]]:
    """Judge the released networks on a folder of images and write ``report.html`` and ``result.json``.

    Args:
        images: A folder with one folder for each class, called by its WordNet id; any part of the validation images.
        files: Files of weights by loss (``ce``, ``ls``, ``maxsup``); those left out are fetched from the hub.
        output: The folder to write.
        ood: Images of another kind, a data set or ``folder:PATH``, none of them of ImageNet's classes.
        transfer: Data on whose training images a linear probe of each network's features is fitted.
        overrides: Changes ``key.sub=value`` of how images are read, for instance ``data.download=true``.
        progress: Progress display of forward passes.
    """
    if unknown := [name for name in files if name not in LOSSES]:
        raise ValueError(f"weights must be of {', '.join(LOSSES)}; got {unknown[0]!r}. Write for instance maxsup=FILE.")
    found = {name: files[name] if name in files else fetched(name) for name in LOSSES}
    hashes = {name: _sha256(path) for name, path in found.items()}
    made = outputs_of_models(
        [str(path) for path in found.values()],
        model=NETWORK,
        data=f"folder:{images.resolve()}",
        ood=ood,
        transfer=transfer,
        overrides=[*TRANSFORM, *overrides],
        progress=progress,
    )
    models = dict(zip(found, made.values(), strict=True))
    compared = diagnose_side_by_side(
        {name: each.outputs for name, each in models.items()},
        heads={name: each.head for name, each in models.items()},
        ood={name: each.ood for name, each in models.items() if each.ood is not None},
    )
    transfers = {name: each.transfer for name, each in models.items() if each.transfer is not None}
    judgements = [_judged(claim, compared) for claim in CLAIMS]
    facts = {
        name: {"File": path.name, "SHA-256": f"{hashes[name]} (found; none is published)", **models[name].facts}
        for name, path in found.items()
    }
    output.mkdir(parents=True, exist_ok=True)
    record = {
        "facts": facts,
        "claims": [asdict(each) for each in judgements],
        "transfer": {name: each._asdict() for name, each in transfers.items()},
        **compared.as_dict(),
    }
    write_file(output / "result.json", json_text(record).encode())
    sections = [_paper_section(compared, transfer, transfers), _claim_section(judgements)]
    page = side_by_side_page(compared, facts, sections=sections)
    write_file(output / "report.html", page.encode())
    return compared, judgements


def fetched(loss: str) -> Path:
    """Fetch the weights of a loss from the hub, chosen by the names of its files."""
    where = f"https://huggingface.co/{REPOSITORY}"
    advice = f"Fetch that of {LOSSES[loss]} from {where} where there is a network, and write {loss}=FILE."
    if not hub_has(None, ()):
        raise StorageError(f"weights of {loss!r} must be given or within reach; the hub does not answer. {advice}")
    hub = imported("huggingface_hub", "fetching released weights", "hf")
    try:
        names = [name for name in hub.list_repo_files(REPOSITORY) if name.endswith(_WEIGHTS)]
        chosen = [name for name in names if loss_of(name) == loss]
        if len(chosen) != 1:
            raise DataError(
                f"one file of the hub must be named after {loss!r}; got {len(chosen)} of {', '.join(names) or 'none'}. "
                f"Choose one yourself: {advice}"
            )
        return Path(hub.hf_hub_download(REPOSITORY, chosen[0]))
    except OSError as error:
        raise StorageError(f"weights of {loss!r} must be within reach; got {type(error).__name__}. {advice}") from error


def loss_of(name: str) -> str | None:
    """Return the loss that the name of a file stands for, None if it says none.

    Example:
        >>> [loss_of(name) for name in ("resnet50_MaxSup.ckpt", "ls/last.ckpt", "baseline.pth", "weights.pt")]
        ['maxsup', 'ls', 'ce', None]
    """
    words = re.split(r"[^a-z0-9]+", name.lower())
    if any("maxsup" in word or word == "ms" for word in words):
        return "maxsup"
    if any(word == "ls" or word.startswith("label") for word in words):
        return "ls"
    return "ce" if any(word in ("ce", "baseline", "crossentropy") for word in words) else None


def verdict(claim: Claim, low: float, high: float) -> str:
    """Return the word of the protocol for an interval of 95 %; sameness is judged by it too, which is stricter.

    Example:
        >>> claim = Claim("within", "ls", "maxsup", 1, 0.005, "tab:feature2")
        >>> [verdict(claim, *bounds) for bounds in ((0.01, 0.03), (-0.03, -0.01), (-0.002, 0.003), (-0.1, 0.1))]
        ['confirmed', 'not reproduced', 'no difference within the margin', 'inconclusive']
    """
    if not low <= 0 <= high:
        return "confirmed" if (low > 0) == (claim.sign > 0) else "not reproduced"
    return "no difference within the margin" if max(-low, high) < claim.margin else "inconclusive"


def _judged(claim: Claim, compared: SideBySide) -> Judgement:
    [pair] = [each for each in compared.pairs if (each.first, each.second) == (claim.first, claim.second)]
    number = pair.numbers.get(claim.number)
    if number is None or number["value"] != number["value"]:
        return Judgement(claim, None, None, None, "cannot tell: too few images a class")
    value, low, high = (number[key] for key in ("value", "low", "high"))
    return Judgement(claim, value, low, high, verdict(claim, low, high))


def _sha256(path: Path) -> str:
    if not path.is_file():
        raise StorageError(f"weights must be a file that is there; got {str(path)!r}. Check the path.")
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _paper_section(compared: SideBySide, target: str | None, transfers: Mapping[str, Transfer]) -> Section:
    rows: list[list[Any]] = []
    others = [name for name in _OF_OTHERS if all(name in each.numbers for each in compared.diagnoses.values())]
    for name in (*PUBLISHED, *_OURS, *others):
        source, published = PUBLISHED.get(name, ("", {}))
        values = [compared.diagnoses[loss].numbers.get(name, {}).get("value") for loss in LOSSES]
        rows.append([name, *values, source or "not in the paper", *(published.get(loss) for loss in LOSSES)])
    source, published = TRANSFER_PUBLISHED
    accuracies = [transfers[loss].accuracy if loss in transfers else None for loss in LOSSES]
    title = "linear transfer: --transfer cifar10 fills it" if target is None else f"linear transfer to {target}"
    rows.insert(len(PUBLISHED), [title, *accuracies, f"{source} (CIFAR-10)", *(published[loss] for loss in LOSSES)])
    titles = [*LOSSES.values(), *(f"{title}, published" for title in LOSSES.values())]
    columns = [Column("number", is_number=False), *(Column(title, 4) for title in titles[:3])]
    columns += [Column("table", is_number=False), *(Column(title, 4) for title in titles[3:])]
    note = (
        "Published numbers are of all 50,000 validation images. Numbers of features need ten images of a class. "
        "Linear transfer is the accuracy of a linear probe on test images of other data, fitted on its training images "
        "and with a strength chosen on its validation images."
    )
    if target is None:
        note += " It is not filled: give --transfer cifar10, or --transfer folder:PATH."
    if not others:
        note += " Detection of other images is not filled: give --ood folder:PATH."
    blocks: list[Block] = [
        Table("What the paper prints, and what these files give", columns, rows, "paper"),
        Text(note),
    ]
    return Section("Beside the paper", blocks)


def _claim_section(judgements: list[Judgement]) -> Section:
    rows = [
        [
            f"{each.claim.number}: {each.claim.second} against {each.claim.first}",
            "higher" if each.claim.sign > 0 else "lower",
            each.value,
            each.low,
            each.high,
            each.claim.margin,
            each.verdict,
            each.claim.source,
        ]
        for each in judgements
    ]
    columns = [Column("claim", is_number=False), Column("claimed", is_number=False)]
    columns += [Column(title, 4) for title in ("difference", "from", "to", "margin")]
    columns += [Column("verdict", is_number=False), Column("source", is_number=False)]
    text = (
        "By the rule of the protocol, with images in the place of seeds: there is one training run for each loss, so a "
        "verdict is about these three files."
    )
    return Section("Claims", [Table("Claims of the paper and of ours", columns, rows, "claims"), Text(text)])


def summary_lines(compared: SideBySide, judgements: list[Judgement]) -> list[str]:
    """Return what a terminal shows."""
    lines = [compared.headline]
    for each in judgements:
        bounds = "" if each.value is None else f" {each.value:+.4f} [{each.low:+.4f}, {each.high:+.4f}]"
        lines.append(f"{each.claim.number}, {each.claim.second} against {each.claim.first}:{bounds} {each.verdict}")
    return lines
