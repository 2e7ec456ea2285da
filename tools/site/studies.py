"""Recipes, and the studies of the paper's tables: what is published, and what was found here."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tools.site.program import told, told_json
from tools.site.rst import code, code_block, document, escaped, hidden_toctree, listing, table, titled


class Claim(NamedTuple):
    """A claim of the paper as ``docs/evidence`` has it."""

    name: str
    states: str
    label: str
    paper: str
    verdict: str


def pages(root: Path) -> dict[str, str]:
    """A page for each recipe and each study, and the two lists of them."""
    recipes = told_json("ls", "recipes")
    studies = [
        told_json("study", "show", row["name"], "--scale", "tiny")["study"]
        for row in told_json("study", "ls")["studies"]
    ]
    found = claims(root)
    return {
        **{f"lab/recipes/{row['name']}.rst": _recipe(row) for row in recipes},
        **{f"lab/studies/{study['name']}.rst": _study(study, found) for study in studies},
        "lab/recipes/index.rst": _recipe_index(recipes),
        "lab/studies/index.rst": _study_index(studies, found),
    }


def claims(root: Path) -> list[Claim]:
    """What was asked of each table of the paper, and how it stands: the first words in bold on its page."""
    folder = root / "docs" / "evidence"
    asked = yaml.safe_load((folder / "claims.yaml").read_text(encoding="utf-8"))
    made = []
    for name, claim in asked.items():
        page = (folder / "claims" / f"{name}.md").read_text(encoding="utf-8")
        verdict = re.search(r"^(.*?\*\*.+)$", page, re.MULTILINE)
        if verdict is None:
            raise ValueError(f"the page of claim {name!r} must have a verdict in bold; got none. Write it again.")
        made.append(Claim(name, claim["states"], claim["label"], claim["paper"], verdict[1]))
    return made


def _recipe(row: Mapping[str, str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{row['name']}.yaml"
        told("cp", row["name"], str(file))
        content = file.read_text(encoding="utf-8")
    return document(
        titled(row["name"], "="),
        escaped(row["title"]),
        code_block("console", f"$ {row['command']}"),
        f"**To expect**: {escaped(row['expect'])}",
        f"``maxsup cp {row['name']} my.yaml`` copies the file, to change it. What the keys mean is told in "
        ":doc:`recipes and runs <../../recipes>`.",
        code_block("yaml", content),
    )


def _study(study: Mapping[str, Any], found: list[Claim]) -> str:
    parts = [
        titled(study["name"], "="),
        f"**{escaped(study['title'])}** (``{study['label']}``)",
        escaped(study["question"]),
        code_block("console", f"$ maxsup study run {study['name']} --scale tiny"),
    ]
    for published in study["published"]:
        rows = [[_title(study, name), *map(_number, cells)] for name, cells in published["rows"].items()]
        columns = [_column_title(study, column) for column in published["columns"]]
        parts += [titled(f"Published: {published['label']}", "-"), table(["\\ ", *columns], rows)]
    parts += [titled("Found here", "-"), _found(study, found)]
    notes = [f"``{name}``: {escaped(scale['note'])}" for name, scale in study["scales"].items() if scale.get("note")]
    if notes:
        parts += [titled("At a smaller scale", "-"), listing(notes)]
    if study["stated"]:
        parts += [titled("What the paper states", "-"), listing(map(escaped, study["stated"]))]
    if study["unstated"]:
        left_open = [f"{escaped(each['what'])} *{escaped(each['choice'])}*" for each in study["unstated"]]
        parts += [titled("What it leaves open, and what is done here", "-"), listing(left_open)]
    if study["errata"]:
        names = ", ".join(map(code, study["errata"]))
        parts.append(f"Where paper and released code differ: {names} in :doc:`the errata <../../errata>`.")
    return document(*parts)


def _found(study: Mapping[str, Any], found: list[Claim]) -> str:
    own = _claims_of(study, found)
    if not own:
        return "Nothing has been decided here about it; the command above, with ``--scale small``, asks."
    cells = [
        [f":doc:`{escaped(claim.states)} <../../evidence/claims/{claim.name}>`", escaped(claim.paper), claim.verdict]
        for claim in own
    ]
    return table(["claim", "published", "here, at the small scale"], cells)


def _claims_of(study: Mapping[str, Any], found: list[Claim]) -> list[Claim]:
    labels = {study["label"], *study["also"]}
    return [claim for claim in found if claim.label in labels]


def _title(study: Mapping[str, Any], name: str) -> str:
    titles = {row["name"]: row["title"] for row in study["rows"]}
    return escaped(titles.get(name, name)) or "\\ "


def _column_title(study: Mapping[str, Any], name: str) -> str:
    titles = {row["name"]: f"{row['group']} {row['title']}".strip() for row in study["columns"]}
    return escaped(titles.get(name, name)) or "\\ "


def _number(cell: Mapping[str, Any] | None) -> str:
    if cell is None or cell["mean"] is None:
        return "\\ "
    return f"{cell['mean']:g}" + ("" if cell["std"] is None else f" ± {cell['std']:g}")


def _recipe_index(rows: list[dict[str, str]]) -> str:
    cells = [[f":doc:`{row['name']}`", f"{escaped(row['title'])} *{escaped(row['expect'])}*"] for row in rows]
    return document(
        titled("Recipes", "="),
        "What comes with the package, and the number to expect of it. ``maxsup train NAME`` trains one.",
        table(["name", "what to expect"], cells),
        hidden_toctree(row["name"] for row in rows),
    )


def _study_index(studies: list[dict[str, Any]], found: list[Claim]) -> str:
    cells = []
    for study in studies:
        own = _claims_of(study, found)
        verdicts = "; ".join("".join(re.findall(r"\*\*.+?\*\*", claim.verdict)[:1]) for claim in own)
        cells.append([f":doc:`{study['name']}`", escaped(study["title"]), verdicts or "\\ "])
    return document(
        titled("Studies", "="),
        "Every table and figure of the paper that needs training, and questions of our own. Each page has "
        "the published numbers and what was found here; :doc:`the evidence <../../evidence/README>` "
        "tells how it is judged.",
        table(["study", "what", "found here"], cells),
        hidden_toctree(study["name"] for study in studies),
    )
