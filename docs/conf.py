"""How Sphinx builds the site; ``make docs`` generates its pages first."""

import sys
import warnings
from pathlib import Path
from typing import Any

from sphinx.util.nodes import make_refnode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import maxsup
from tools.site.api import MOCKED, hide_fields

project = "maxsup"
author = "the contributors of maxsup"
copyright = f"2026, {author}"  # Sphinx asks for this name
release = version = maxsup.__version__

extensions = [
    "tools.site.mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.rst", "extra"]
html_extra_path = ["_build/source/extra"]
html_math_renderer = "mathml"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# The hand-written pages show commands more often than Python, and say so where it is Python.
highlight_language = "none"
smartquotes = False
suppress_warnings = ["config.cache"]

autodoc_mock_imports = list(MOCKED)
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False

html_theme = "furo"
html_title = f"maxsup {release}"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("explore.js", {"defer": "defer"}), ("copy.js", {"defer": "defer"})]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b62a3", "color-brand-content": "#0b62a3"},
    "dark_css_variables": {"color-brand-primary": "#6db3f2", "color-brand-content": "#6db3f2"},
    "top_of_page_buttons": [],
}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "parallel": 2,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "min_reported_time": 0,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "abort_on_example_error": True,
    # A table of times would fetch its scripts from elsewhere.
    "write_computation_times": False,
}
# joblib renews its workers when they have grown, and says so.
warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")


def _public(app: Any, env: Any, node: Any, content: Any) -> Any:
    """A name in a docstring, wherever it is defined, leads to its public place."""
    name = node.get("reftarget", "").rpartition(".")[2]
    found = [entry for full, entry in env.get_domain("py").objects.items() if full.rpartition(".")[2] == name]
    if node.get("refdomain") != "py" or not name or not found:
        return None
    place = min(found, key=lambda entry: (not entry.docname.startswith("api/"), len(entry.docname), entry.node_id))
    return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, content, name)


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.connect("missing-reference", _public)
    app.connect("autodoc-process-signature", hide_fields)
