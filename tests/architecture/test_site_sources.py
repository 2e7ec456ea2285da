"""The site tells everything there is: a card a loss, a page a verb, an entry a name; its links lead somewhere."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import maxsup
from tests.architecture.source import ROOT

pytest.importorskip("sphinx")

from sphinx.ext.autodoc.mock import ismock

from maxsup.core.errors import EXIT_CODES
from maxsup.lab.experiments import PairedComparison
from tools.site import api, cards, commands, costs, results, staging, studies
from tools.site.built import problems
from tools.site.mathml import formula
from tools.site.rst import prose
from tools.site.search import page_words

EXAMPLES = sorted((ROOT / "docs" / "gallery").glob("*.py"))
# What a reader may rely on: names that are told in the reference, and those that docs/contributing shows.
PUBLIC = {"maxsup", "maxsup.losses.base", "maxsup.losses.penalized"}


def test_all_losses_have_a_card_with_formula_gradient_cost_needs_and_source() -> None:
    made = cards.pages(ROOT)
    assert set(made) == {"losses/index.rst", *(f"losses/{name}.rst" for name in maxsup.list_losses())}
    for row in maxsup.losses.describe_losses():
        page = made[f"losses/{row['name']}.rst"]
        assert ".. math:: " in page
        assert page.count("<svg ") == 3
        assert len(costs.cost_rows(ROOT, row["name"])) in (0, 2)  # not measured yet, or for both sizes
        assert all(need in page for need in row["needs"])
        assert row["source"] in page


def test_formulas_of_all_losses_become_mathml() -> None:
    for name in maxsup.list_losses():
        tex = cards.formula_of(maxsup.losses.LOSSES[name].function).removeprefix(".. math:: ")
        assert formula(tex, is_block=True).startswith("<math")


def test_every_verb_and_each_of_its_options_has_its_place_on_a_page() -> None:
    found, made = commands.verbs(), commands.pages()
    assert {"train", "compare", "diagnose", "export", "study run"} < set(found)
    assert len(made) == len(found) + 1
    for name, command in found.items():
        page = made[f"cli/{name.replace(' ', '-')}.rst"]
        for param in command.params:
            shown = param.opts[0] if param.param_type_name == "option" else param.metavar or param.name.upper()
            assert shown in page, f"{name} {shown}"


def test_every_exit_code_and_its_meaning_stand_on_the_page_of_the_command_line() -> None:
    section = commands.pages()["cli/index.rst"].partition("Exit codes")[2]
    for code, meaning in EXIT_CODES.items():
        assert f"* - {int(code)}\n     - {prose(meaning)}" in section


def test_the_reference_has_an_entry_for_every_public_name() -> None:
    modules, made = api.public_modules(), {**api.pages(), **cards.pages(ROOT)}
    names = {module.__name__ for module in modules}
    assert {"maxsup", "maxsup.functional", "maxsup.losses", "maxsup.metrics", "maxsup.integrations.keras"} < names
    text = "\n".join(made.values())
    for module in modules:
        for member in api.members(module):
            assert re.search(rf"^\.\. (?:auto\w+|py:data):: maxsup\.\S+\.{member}$", text, re.MULTILINE), member


def test_the_search_knows_names_and_prefers_whole_words_of_titles() -> None:
    html = (
        '<article><h1>timm<a class="headerlink">#</a></h1><dl><dt id="maxsup.losses.MaxSupLoss">x</dt></dl></article>'
    )
    page = page_words(html, "integrations/timm.html")
    assert (page["title"], page["kind"], page["terms"]) == ("timm", "guide", "maxsuploss")


def test_docstrings_name_their_arguments_without_stars_which_a_page_would_show() -> None:
    values = {name: value for module in api.public_modules() for name, value in api.members(module).items()}
    assert [
        name for name, value in values.items() if re.search(r"^\s*\*+\w+:", value.__doc__ or "", re.MULTILINE)
    ] == []


def test_records_have_no_signature_in_the_reference_and_losses_have_theirs() -> None:
    assert api.hide_fields(None, "class", "", PairedComparison) == ("", None)
    assert api.hide_fields(None, "class", "", maxsup.MaxSupLoss) is None


def test_the_reference_leaves_no_stand_in_for_a_trainer_in_this_process() -> None:
    api.public_modules()
    ours = {name: vars(module) for name, module in list(sys.modules.items()) if name.startswith("maxsup.")}
    assert [name for name, values in ours.items() if any(map(ismock, values.values()))] == []


def test_hand_written_pages_link_to_files_that_exist() -> None:
    made = staging.copied(ROOT)
    assert {"index.md", "contributing.md", "evidence/README.md", "integrations/README.md"} < set(made)
    assert "evidence/figures/claims.svg" in made
    assert "(figures/claims.svg)" in made["evidence/README.md"]
    with pytest.raises(ValueError, match=r"a link must lead to a file; got 'gone\.md' in docs/a\.md"):
        staging.with_links("See [this](gone.md).", "docs/a.md", {}, ROOT)
    code = "````markdown\n```python\n[0](gone.md)\n```\n[this](gone.md)\n````"
    assert staging.with_links(code, "docs/a.md", {}, ROOT) == code
    with pytest.raises(ValueError, match=r"a link must lead to a page or file of the site; got '\.\./Makefile'"):
        staging.with_links("See [this](../Makefile).", "docs/a.md", {}, ROOT)


def test_what_pages_show_or_offer_from_other_folders_is_on_the_site() -> None:
    made = staging.copied(ROOT)
    assert {"benchmarks/losses.png", "evidence/results/c10.csv", "evidence/claims.yaml"} <= set(made)
    assert "(benchmarks/losses.png)" in made["benchmarks.md"]
    assert "[results](results.rst)" in made["evidence/README.md"]
    page = results.pages(ROOT)["evidence/results.rst"]
    tables = [name.removeprefix("evidence/") for name in made if name.startswith("evidence/results/")]
    assert len(tables) > 20
    assert [name for name in tables if f"<{name}>`" not in page] == []


def test_a_table_in_the_docstring_of_a_loss_stays_a_table() -> None:
    text = "One.\n\n**Source.** A\nb:\n\n== ==\na  b\n== ==\n1  2\n== ==\n\nMore\ntext. **Use it** so.\n"
    table = "  == ==\n  a  b\n  == ==\n  1  2\n  == =="
    assert cards.about(text) == f"One.\n\n- **Source.** A b:\n\n{table}\n\n  More text.\n- **Use it** so."


def test_what_was_found_stands_beside_what_was_published() -> None:
    found = studies.claims(ROOT)
    assert len(found) == len(list((ROOT / "docs" / "evidence" / "claims").glob("*.md")))
    assert all(claim.verdict and claim.paper and claim.label for claim in found)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_the_gallery_use_public_names_and_draw(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    imported = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module}
    ours = {name for name in imported if name.startswith("maxsup")}
    assert ours <= PUBLIC | {module.__name__ for module in api.public_modules()}
    assert "plt.show()" in text


def test_the_gallery_has_the_examples_that_the_start_page_names() -> None:
    named = set(re.findall(r"\(examples/(\w+)\.rst\)", (ROOT / "docs" / "index.md").read_text()))
    assert 8 <= len(EXAMPLES) <= 12
    assert named <= {path.stem for path in EXAMPLES}


def test_broken_links_bare_markup_and_foreign_requests_of_a_built_page_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<p id="here">', encoding="utf-8")
    fine = '<a href="other.html#here">x</a><a href="https://example.org">y</a>'
    (tmp_path / "index.html").write_text(fine, encoding="utf-8")
    assert problems(tmp_path) == []
    (tmp_path / "other.html").write_text('<p id="here">left ===== right <code>``a``</code></p>', encoding="utf-8")
    assert problems(tmp_path) == ["other.html: 'left ===== right' is markup in running text."]
    (tmp_path / "other.html").write_text('<p id="here">', encoding="utf-8")
    bad = '<a href="gone.html">x</a><a href="other.html#there">y</a><script src="https://example.org/a.js"></script>'
    (tmp_path / "index.html").write_text(bad, encoding="utf-8")
    assert problems(tmp_path) == [
        "index.html: gone.html leads to no file.",
        "index.html: other.html#there leads to a page without that place.",
        "index.html: https://example.org/a.js is fetched from elsewhere.",
    ]
