"""Pages of evidence say what their entries say, in printed units."""

import math
from typing import Any

from tools.evidence.first.pages import claim_page, claims_table, pools_figure, pools_page

DRAWN = ("test.accuracy", "test.confidence_correct", "test.confidence_wrong")


def entry(pool: str, num_pairs: int) -> dict[str, Any]:
    found = (0.0084, 0.0041, 0.0127, num_pairs)
    rows = [
        {"loss": "ce", "num_seeds": 1, "means": [0.2948, None, 0.133], "difference": (-0.007, 0.0, 0.0, 1)},
        {"loss": "ls alpha=0.1", "num_seeds": 6, "means": [0.3018, 0.137, 0.12], "difference": None},
        {"loss": "maxsup alpha=0.1", "num_seeds": 6, "means": [0.3102, 0.164, 0.105], "difference": found},
    ]
    tests = [(math.nan, math.nan), (math.nan, math.nan), (0.004, 0.008)]
    rows = [row | {"p": p, "holm_p": holm_p} for row, (p, holm_p) in zip(rows, tests, strict=True)]
    contrast = {"losses": ("maxsup alpha=0.1", "ls alpha=0.1"), "contrast": dict.fromkeys(DRAWN, found)}
    return {"pool": pool, "numbers": list(DRAWN), "rows": rows} | contrast


def test_the_page_has_a_table_a_pool_with_percent_and_points() -> None:
    page = pools_page([entry("c100", 6), entry("vit", 6)])
    assert "## c100" in page
    assert "## vit" in page
    assert "| maxsup alpha=0.1 | 6 | 31.02 | 0.164 | 0.105 | +0.84 [+0.41, +1.27] | 0.004 | 0.008 |" in page


def test_what_was_not_measured_is_a_dash_and_a_single_pair_has_no_interval() -> None:
    assert "| ce | 1 | 29.48 | - | 0.133 | -0.70 | - | - |" in pools_page([entry("c100", 6)])


def test_the_figure_draws_pools_with_three_pairs_or_more() -> None:
    figure = pools_figure([entry("c100", 6), entry("few", 2)])
    assert len(figure.axes) == len(DRAWN)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["c100, alpha=0.1, 6 seeds"]


def claim(name: str, setting: str) -> dict[str, Any]:
    words = {
        "name": name,
        "states": "A beats B.",
        "label": "tab:a",
        "study": "tab_a",
        "paper": "+1",
        "claim": "a",
        "than": "b",
    }
    found = {"word": "inconclusive", "reason": "few seeds", "num_pairs": 0, "tuned": None, "test_images": []}
    found |= {"p": math.nan, "holm_p": math.nan, "exact_p": math.nan, "num_family": 1, "caveat": "", "note": ""}
    judged = {"number": "n", "pools": [setting], "direction": "higher", "margin": 0.3, "unit": ""}
    about = {"setting": setting, "size": "9 parameters", "scale": f"the images of {setting}", "limits": "Many."}
    return words | found | judged | about


def test_a_scale_is_said_once_below_the_claims_and_on_the_page_of_each() -> None:
    claims = [claim("first", "c10"), claim("second", "c10"), claim("third", "vit")]
    table = claims_table(claims)
    assert table.count("| `c10` |") == 2
    assert table.endswith("\n- `c10`: the images of c10.\n- `vit`: the images of vit.")
    assert all(f"- Scale: {each['scale']}." in claim_page(each) for each in claims)


def test_no_verdict_is_said_without_its_scale_and_its_caveat() -> None:
    judged = claim("first", "c10") | {"word": "confirmed", "reason": "above 0", "caveat": "strengths differ"}
    judged |= {"num_family": 3, "holds_after_correction": False}
    assert "**Confirmed by the rule, with a caveat, at this scale (9 parameters).**" in claim_page(judged)
    assert "does not stand after Holm's correction over the 3 claims of its pool; but strengths differ" in (
        claims_table([judged])
    )
