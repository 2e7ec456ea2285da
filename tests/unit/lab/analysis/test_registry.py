import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from maxsup.lab.analysis import ANALYSES, Analysis, RunOutputs, analyze, registry
from maxsup.lab.analysis.registry import check_options
from tests.architecture.source import ROOT

COUNTS = [(name, option) for name in ANALYSES for option in ANALYSES[name].counts]


def test_every_number_of_something_is_checked_before_anything_is_computed() -> None:
    named = {(name, option) for name in ANALYSES for option in ANALYSES.options(name) if option.startswith("num_")}
    # Segmentation may show no image at all and says so itself.
    assert set(COUNTS) == named - {("segmentation", "num_images")}
    assert len(COUNTS) == 9


@pytest.mark.parametrize(("name", "option"), COUNTS)
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "six"])
def test_a_count_below_one_or_not_whole_is_refused(name: str, option: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"{name}\.{option} must be a whole number of at least 1; got"):
        check_options(name, {option: value})


def test_a_count_may_be_none_only_where_that_means_all() -> None:
    check_options("corruption", {"num_images": None})
    with pytest.raises(ValueError, match=r"got None\. Leave it out for 6"):
        check_options("gradcam", {"num_images": None})


# Every way to an analysis, in a package that has its one file more.
USE = """
import json, sys
import maxsup
from maxsup.lab.cli.listings import complete_analyses, read_rows
from maxsup.lab.analysis import analyze

assert maxsup.__file__.startswith(HOME), maxsup.__file__
assert [row["summary"] for row in read_rows("analyses") if row["name"] == "surprise"] == ["mean surprise"]
assert "surprise" in complete_analyses("sur")
done = analyze(sys.argv[1], "surprise", output=HOME)
print(json.dumps([result["numbers"] for result in done.results["surprise"].values()]))
"""


def test_the_analysis_that_the_registry_shows_is_known_everywhere_from_its_one_file(
    tmp_path: Path, digit_runs: list[Path]
) -> None:
    example = textwrap.dedent(str(registry.__doc__).partition("::\n")[2])
    lab, analysis = Path("lab"), Path("lab/analysis")
    for folder in (Path(), lab, analysis):
        (tmp_path / "maxsup" / folder).mkdir()
        for path in (ROOT / "src" / "maxsup" / folder).iterdir():
            if folder / path.name not in (lab, analysis, analysis / "analyses"):
                (tmp_path / "maxsup" / folder / path.name).symlink_to(path)
    analyses = shutil.copytree(ROOT / "src/maxsup/lab/analysis/analyses", tmp_path / "maxsup/lab/analysis/analyses")
    calibration = (analyses / "calibration.py").read_text()
    imports = "\n".join(re.findall(r"^(?:from|import) .+", calibration, re.MULTILINE))
    (analyses / "surprise.py").write_text(f"{imports}\n\n{example}")
    (tmp_path / "use.py").write_text(f"HOME = {str(tmp_path)!r}\n{USE}")
    run = shutil.copytree(digit_runs[0], tmp_path / "run", symlinks=True)
    command = [sys.executable, "use.py", str(run)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    expected = next(iter(analyze(run, "calibration", output=tmp_path).results["calibration"].values()))
    found = json.loads(done.stdout.splitlines()[-1])
    assert found[0]["nll"]["value"] == pytest.approx(expected["numbers"]["nll"]["value"], rel=1e-6)


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (None, "compute of analysis 'margin' must return numbers and data; got NoneType."),
        ({"numbers": {}}, "compute of analysis 'margin' must return numbers and data; got ['numbers']."),
        ({"numbers": {}, "data": {}, "facts": {}}, "got ['data', 'facts', 'numbers']."),
        ({"numbers": [1.0], "data": {}}, "numbers of analysis 'margin' must be a dict; got list."),
        ({"numbers": {"margin": 1.0}, "data": {}}, "a value, a direction and a unit each; got 1.0 for 'margin'."),
        ({"numbers": {"margin": {"value": 1.0}}, "data": {}}, "got {'value': 1.0} for 'margin'."),
    ],
    ids=["nothing", "no data", "more", "a list", "a float", "no direction"],
)
def test_a_result_of_another_form_is_refused_in_one_sentence(
    result: Any, sentence: str, monkeypatch: pytest.MonkeyPatch, digit_runs: list[Path], tmp_path: Path
) -> None:
    ANALYSES.names()
    added = Analysis(lambda run, *, split: result, lambda results: {})
    monkeypatch.setitem(ANALYSES._registered, "margin", (added, {"summary": "margin", "paper": "-"}))
    with pytest.raises(TypeError, match=re.escape(sentence)) as error:
        analyze([RunOutputs(digit_runs[0])], "margin", output=tmp_path)
    assert "maxsup.metrics.facts.numbers" in str(error.value)
