"""A real browser, if there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, started once per file; without it the test is skipped."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("chromium is not installed (make browser)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


def watch(page: Any) -> tuple[list[str], list[str]]:
    """What a page complains about and what it asks for, from now on; addresses that hold their data are left out."""
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda asked: None if asked.url.startswith("data:") else requests.append(asked.url))
    return complaints, requests
