"""Formulas as MathML, which browsers draw by themselves: no script, no font and no picture to load."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def formula(tex: str, *, is_block: bool) -> str:
    """TeX as MathML; names of several letters in an index stand upright.

    Example:
        >>> "<mi>max</mi>" in formula("z_{max}", is_block=False)
        True
    """
    upright = re.sub(r"_\{([a-z]{2,})\}", r"_{\\mathrm{\1}}", " ".join(tex.split()))
    return str(tex2mathml(upright, as_block=is_block))


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(formula(node.astext(), is_block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{formula(node.astext(), is_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
