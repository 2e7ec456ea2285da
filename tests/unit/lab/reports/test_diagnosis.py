"""The damage report as a page: everything that was found is on it, as text."""

from __future__ import annotations

import re
from html import unescape

import pytest
import torch
import torch.nn.functional as F

from maxsup.diagnosis.diagnosis import Diagnosis, diagnose
from maxsup.lab.reports.diagnosis import MAX_CLASS_ROWS, diagnosis_page

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"


def made(num_classes: int = 4, *, has_features: bool = False, num_samples: int = 800) -> Diagnosis:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_samples) % num_classes
    features = torch.randn(num_classes, 6, generator=generator)[labels]
    features = features + 0.8 * torch.randn(num_samples, 6, generator=generator)
    noise = torch.randn(num_samples, num_classes, generator=generator)
    logits = 2.0 * F.one_hot(labels) + 1.5 * noise
    names = (HOSTILE, *(f"class {index}" for index in range(1, num_classes)))
    return diagnose(logits, labels, features if has_features else None, names)


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return made()


def test_every_finding_is_on_the_page_with_its_advice(diagnosis: Diagnosis) -> None:
    text = unescape(diagnosis_page(diagnosis, source="l.npy"))
    for finding in diagnosis.findings:
        assert finding.sentence in text
        assert finding.advice in text


def test_class_names_and_the_source_stay_text(diagnosis: Diagnosis) -> None:
    html = diagnosis_page(diagnosis, source=HOSTILE, facts={HOSTILE: HOSTILE})
    assert "<img" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 4


def test_every_plot_has_its_data_for_download(diagnosis: Diagnosis) -> None:
    html = diagnosis_page(diagnosis)
    plots = re.findall(r'<svg [^>]*aria-labelledby="(\w+)-title', html)
    assert plots == ["confidence", "reliability", "risk"] or plots == ["smoothing", "confidence", "reliability", "risk"]
    assert all(f'download="{name}.csv"' in html for name in plots)


def test_the_same_diagnosis_gives_the_same_bytes(diagnosis: Diagnosis) -> None:
    assert diagnosis_page(diagnosis, source="a") == diagnosis_page(diagnosis, source="a")


def test_of_many_classes_the_worst_are_listed() -> None:
    html = diagnosis_page(made(num_classes=MAX_CLASS_ROWS + 50, num_samples=2000))
    [table] = re.findall(r"<caption>One row per class.*?</table>", html, re.DOTALL)
    assert f"the {MAX_CLASS_ROWS} least accurate of {MAX_CLASS_ROWS + 50}" in table
    assert table.count("<tr>") == MAX_CLASS_ROWS + 1
    shares = [float(value) for value in re.findall(r'<td class="number" data-value="([\d.]+)">0\.\d{3}</td>', table)]
    assert shares


def test_features_bring_the_plane_with_the_papers_values() -> None:
    html = diagnosis_page(made(has_features=True))
    assert 'id="collapse"' in html
    assert "this model" in html
    assert "tab:feature2" in html
