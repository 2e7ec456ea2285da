"""``python -m tools.animation``: the animation at the head of README.md, recorded from the page to play with.

Needs chromium (``make browser``). It answers the question of the page, presses Play, and writes ``docs/question.gif``.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from maxsup.lab.reports.explore import explore_page

FILE = Path(__file__).parents[1] / "docs" / "question.gif"
WIDTH, HEIGHT, COLORS = 760, 560, 48
STEPS, EACH = 45, 3
READING, MOVING = 1800, 120  # milliseconds a frame is shown


def frames(page: Page) -> list[tuple[Image.Image, int]]:
    """Return each picture with the time it is shown."""

    def picture(milliseconds: int) -> tuple[Image.Image, int]:
        shot = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        return Image.open(io.BytesIO(shot)).convert("RGB"), milliseconds

    found = [picture(READING)]
    page.locator("#question-ls .bar-button").nth(1).click()
    found.append(picture(READING))
    page.locator("#question-maxsup .bar-button").nth(0).click()
    page.mouse.move(0, 0)
    found.append(picture(READING))
    for _ in range(STEPS // EACH):
        page.evaluate(f"for (let step = 0; step < {EACH}; step += 1) stepQuestion()")
        found.append(picture(MOVING))
    return [*found, (found[-1][0], READING)]


def main() -> None:
    """Record the page."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as browsers:
        file = Path(folder) / "explore.html"
        file.write_text(explore_page(), encoding="utf-8")
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce"
        )
        page.goto(f"{file.as_uri()}?question")
        pictures, times = zip(*frames(page), strict=True)
        browser.close()
    # One palette for all frames, so that what stands still is the same in each and compresses.
    palette = pictures[2].quantize(COLORS)
    first, *rest = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    first.save(FILE, save_all=True, append_images=rest, duration=list(times), loop=0, optimize=True)


if __name__ == "__main__":
    main()
