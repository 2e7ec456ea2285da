"""The page to play with in a real browser: its numbers are Python's, its keys work, and nothing leaves it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from maxsup.functional import implementation
from maxsup.lab.reports.explore import explore_page
from maxsup.losses import create_loss
from tests.architecture.source import ROOT
from tests.browser.conftest import watch

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOSSES = ("ce", "ls", "maxsup", "mbls")
TOY_LOSSES = LOSSES[:3]
MAX_BYTES = 300_000
THEME = (ROOT / "docs" / "_static" / "explore.js").read_text("utf-8")

# Sets every control as a user would leave it, and reads what the page then shows.
SET_AND_READ = """(settings) => settings.map(({ count, logits, target, alpha, margin }) => {
  const set = (control, value) => {
    control.value = value;
    control.dispatchEvent(new Event(control.type === "range" ? "input" : "change", { bubbles: true }));
  };
  const find = (selector) => document.querySelector(selector);
  if (find("#count").value !== String(count)) set(find("#count"), count);
  set(find("#alpha"), alpha);
  set(find("#margin"), margin);
  logits.forEach((logit, k) => set(find(`#logit-${k}`), logit));
  find(`input[name=target][value="${target}"]`).click();
  const rows = [...document.querySelectorAll("#classes .row")];
  const losses = ["ce", "ls", "maxsup", "mbls"];
  return {
    gradients: losses.map((name) => rows.map((row) => Number(row.querySelector(`.push.${name}`).dataset.value))),
    shown: losses.map((name) => rows.map((row) => row.querySelector(`.push.${name} .slope`).textContent)),
    values: [...document.querySelectorAll("#terms tbody tr")].map((row) => Number(row.cells[4].dataset.value)),
  };
})"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "explore.html"
    file.write_text(explore_page(), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Any, path: Path) -> Iterator[Any]:
    """The page; a complaint on its console, an error or a request fails the test."""
    page = browser.new_page(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    complaints, requests = watch(page)
    page.goto(path.as_uri())
    yield page
    page.close()
    assert (complaints, requests) == ([], [path.as_uri()])


def python_loss(name: str, logits: Tensor, target: Tensor, alpha: float, margin: float = 0.0) -> Tensor:
    """The loss of this package, in its plain form."""
    options = {"ce": {}, "mbls": {"alpha": alpha, "margin": margin}}.get(name, {"alpha": alpha})
    with implementation("reference"):
        return create_loss(name, **options)(logits, target)


def random_settings(count: int) -> list[dict[str, Any]]:
    """Settings on the grid of the controls; a third is rounded, so that logits tie and lie exactly a margin apart."""
    drawn = random.Random(0)
    made = []
    for place in range(count):
        num_classes = 5 + place * 6 // count
        digits = 0 if place % 3 == 0 else 1
        made.append(
            {
                "count": num_classes,
                "logits": [round(drawn.uniform(-6, 6), digits) for _ in range(num_classes)],
                "target": drawn.randrange(num_classes),
                "alpha": drawn.choice([0.0, 0.1, round(drawn.uniform(0, 0.5), 2)]),
                "margin": drawn.choice([0.0, 2.0, 10.0, round(drawn.uniform(0, 12), digits)]),
            }
        )
    return made


def test_gradients_on_the_page_are_those_of_python(opened: Any) -> None:
    settings = random_settings(200)
    found = opened.evaluate(SET_AND_READ, settings)
    ties = sum(len(set(one["logits"])) < one["count"] for one in settings)
    wrong = sum(max(one["logits"]) > one["logits"][one["target"]] for one in settings)
    assert min(ties, wrong, 200 - wrong) > 20
    for one, shown in zip(settings, found, strict=True):
        for place, name in enumerate(LOSSES):
            logits = torch.tensor([one["logits"]], dtype=torch.float64, requires_grad=True)
            value = python_loss(name, logits, torch.tensor([one["target"]]), one["alpha"], one["margin"])
            (gradient,) = torch.autograd.grad(value, logits)
            torch.testing.assert_close(
                torch.tensor([shown["gradients"][place]], dtype=torch.float64), gradient, atol=1e-6, rtol=0
            )
            assert shown["values"][place] == pytest.approx(value.item(), abs=1e-6)
            # What is read has three digits.
            digits = [float(text.replace("\N{MINUS SIGN}", "-")) for text in shown["shown"][place]]
            assert digits == pytest.approx(gradient[0].tolist(), abs=5.1e-4)


def test_the_first_ten_steps_of_the_toy_are_those_of_torch(opened: Any) -> None:
    start = opened.evaluate("structuredClone(toys)")
    for _ in range(10):
        opened.get_by_role("button", name="One step").click()
    end = opened.evaluate("toys.map((toy) => ({ layers: toy.layers, loss: toy.loss, facts: measureToy(toy) }))")
    assert [toy["loss"] for toy in end] == list(TOY_LOSSES)
    for before, after in zip(start, end, strict=True):
        inputs = torch.tensor([point["input"] for point in before["points"]], dtype=torch.float64)
        labels = torch.tensor([point["label"] for point in before["points"]])
        layers = [torch.tensor(layer, dtype=torch.float64, requires_grad=True) for layer in before["layers"]]
        optimizer = torch.optim.SGD(layers, lr=0.2, momentum=0.9)

        def features(inputs: Tensor = inputs, layers: list[Tensor] = layers) -> Tensor:
            return torch.tanh(inputs @ layers[0][:-1] + layers[0][-1]) @ layers[1][:-1] + layers[1][-1]

        for _ in range(10):
            optimizer.zero_grad()
            python_loss(before["loss"], features() @ layers[2][:-1] + layers[2][-1], labels, 0.2).backward()
            optimizer.step()
        for found, wanted in zip(after["layers"], layers, strict=True):
            torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), wanted.detach(), atol=1e-9, rtol=0)
        dots = torch.tensor([dot["features"] for dot in after["facts"]["seen"]], dtype=torch.float64)
        torch.testing.assert_close(dots, features().detach(), atol=1e-9, rtol=0)
        centres = torch.stack([dots[labels == label].mean(0) for label in range(3)])
        spread = (dots - centres[labels]).square().sum() / (dots - dots.mean(0)).square().sum()
        assert after["facts"]["spread"] == pytest.approx(spread.item(), abs=1e-9)


def test_what_the_page_says_about_the_toy_holds_on_the_first_points_it_draws(opened: Any) -> None:
    found = opened.evaluate(
        """() => [8, 9, 10, 11].map((seed) => ["ce", "ls", "maxsup"].map((loss) => {
          const toy = makeToy(loss, seed);
          for (let step = 0; step < 300; step += 1) trainToy(toy, 0.2);
          const { spread, whenWrong, accuracy } = measureToy(toy);
          return { spread, whenWrong, accuracy };
        }))"""
    )
    for ce, ls, maxsup in found:
        assert 0.7 < ls["accuracy"] < 1
        assert ls["spread"] < ce["spread"]
        assert maxsup["spread"] < ce["spread"]
        assert maxsup["whenWrong"] < ls["whenWrong"]


def test_a_handle_is_dragged_and_moved_by_keys(opened: Any) -> None:
    handle = opened.get_by_role("slider", name="Logit of class C")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    bar = opened.locator("#classes .row").nth(2).locator(".chance span")
    seen = {bar.inner_text()}
    opened.mouse.move(box["x"] + box["width"] * 0.54, box["y"] + box["height"] / 2)
    opened.mouse.down()
    for share in (0.7, 0.85, 0.99):
        opened.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
        seen.add(bar.inner_text())
    opened.mouse.up()
    assert len(seen) == 4
    assert float(handle.input_value()) > 5
    assert "The prediction is C" in opened.locator("#spoken").inner_text()
    opened.keyboard.press("End")
    assert handle.input_value() == "6"
    opened.keyboard.press("ArrowLeft")
    assert handle.input_value() == "5.9"
    assert handle.get_attribute("aria-valuetext").startswith("5.9, probability 9")
    opened.get_by_role("radio", name="A is the true class").focus()
    opened.keyboard.press("ArrowDown")
    assert opened.get_by_role("radio", name="B is the true class").is_checked()
    assert "the true class B: wrong" in opened.locator("#verdict").inner_text()


def test_the_path_follows_the_prediction_and_the_step(opened: Any) -> None:
    def column(place: int) -> list[float]:
        opened.evaluate("new Promise(requestAnimationFrame)")
        cells = opened.locator(f"#path-table tbody tr > :nth-child({place})").all()
        return [float(cell.get_attribute("data-value")) for cell in cells]

    ce, ls, maxsup, _ = column(2)
    assert 0 < maxsup < ce < ls
    opened.get_by_label("Step", exact=True).fill("0")
    assert column(3) == [0.8] * 4
    assert column(4) == [3.2] * 4
    opened.get_by_label("Step", exact=True).fill("1")
    logits = torch.tensor([[0.8, 3.2, 0.5, -1, -0.5]], dtype=torch.float64, requires_grad=True)
    for place, name in enumerate(LOSSES):
        (gradient,) = torch.autograd.grad(python_loss(name, logits, torch.tensor([0]), 0.1, 2.0), logits)
        assert column(3)[place] == pytest.approx(0.8 - 0.1 * gradient[0, 0].item(), abs=1e-9)
    opened.get_by_role("button", name="Right").click()
    assert column(2) == [0] * 4
    opened.get_by_role("button", name="Start from an error").click()
    assert column(2) == [ce, ls, maxsup, column(2)[3]]


def bars(page: Any, loss: str) -> Any:
    return page.locator(f"#question-{loss} .bar-button")


def test_the_question_is_answered_by_a_click_and_followed_step_by_step(opened: Any) -> None:
    assert "The network says cat. The truth is dog." in opened.locator("#question").inner_text()
    play = opened.get_by_role("button", name="Play")
    assert play.is_disabled()
    bars(opened, "maxsup").nth(0).click()
    assert opened.locator("#question-maxsup .reveal").inner_text() == "", "one question after the other"
    bars(opened, "ls").nth(0).click()
    assert opened.locator("#question-ls .reveal").inner_text().startswith("No: dog")
    bars(opened, "maxsup").nth(0).click()
    assert opened.locator("#question-maxsup .reveal").inner_text().startswith("Yes: cat")
    opened.evaluate("for (let step = 0; step < 3; step += 1) stepQuestion()")
    for loss in ("ls", "maxsup"):
        logits = torch.tensor([[3.2, 1.4, 0.5, -1, -1.6]], dtype=torch.float64, requires_grad=True)
        for _ in range(3):
            (gradient,) = torch.autograd.grad(python_loss(loss, logits, torch.tensor([1]), 0.5), logits)
            logits = (logits - 0.1 * gradient).detach().requires_grad_()
        assert opened.evaluate(f"question.rows.{loss}") == pytest.approx(logits[0].tolist(), abs=1e-9)
    play.click()
    wait_until(opened, "question.rightFrom.ls > 0")
    assert opened.evaluate("question.rightFrom.maxsup < question.rightFrom.ls")
    opened.get_by_role("button", name="Pause").click()


def test_arrows_of_the_question_are_those_of_the_penalty_or_of_the_whole_loss(opened: Any) -> None:
    opened.get_by_role("button", name="Show me").click()
    directions = "[...document.querySelectorAll('#question-{} .column b')].map((arrow) => arrow.className).join(' ')"
    assert opened.evaluate(directions.format("ls")) == "up down up up up"
    assert opened.evaluate(directions.format("maxsup")) == "down up up up up"
    opened.get_by_role("radio", name="the whole loss").check()
    assert opened.evaluate(directions.format("ls")).startswith("down up")
    opened.get_by_role("button", name="As in the paper").click()
    assert opened.locator("#question-alpha-value").inner_text() == "0.10"


def test_a_real_prediction_takes_the_place_of_the_drawn_one(opened: Any) -> None:
    pictures = opened.locator("#question-pictures .picture-button")
    assert pictures.count() == 13
    for picture in pictures.all()[1:]:
        picture.click()
        true, said = (int(word) for word in picture.inner_text().split("→"))
        assert opened.locator("#question-says").inner_text() == str(said)
        assert bars(opened, "ls").count() == 10
        assert "true class" in bars(opened, "maxsup").nth(true).get_attribute("aria-label")


def test_the_start_page_of_a_site_can_show_the_question_alone(browser: Any, path: Path) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.goto(f"{path.as_uri()}?question")
    assert page.locator("#question").is_visible()
    assert not page.locator("#toy").is_visible()
    page.close()


def test_the_network_trains_by_itself_once_it_is_seen(browser: Any, path: Path) -> None:
    page = browser.new_page(reduced_motion="no-preference")
    page.goto(path.as_uri())
    assert page.evaluate("toys[0].steps") == 0
    page.locator("#toy-ce").scroll_into_view_if_needed()
    wait_until(page, "toys[0].steps > 0")
    page.close()


def wait_until(page: Any, expression: str) -> None:
    """Wait half a minute at most. Playwright's own way to wait evaluates text on the page, which its policy forbids."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression} did not come true")


def test_training_runs_pauses_and_starts_again(opened: Any) -> None:
    count = opened.locator("#toy-count")
    opened.get_by_role("button", name="Train").click()
    wait_until(opened, "toys[0].steps >= 20")
    opened.get_by_role("button", name="Pause").click()
    assert opened.get_by_role("status").inner_text() == "Paused."
    assert int(count.inner_text()) >= 20
    assert "classified rightly" in opened.get_by_role("img", name="Features under MaxSup").get_attribute("aria-label")
    points = opened.locator("#toy-spread polyline.ls").get_attribute("points").split()
    assert len(points) >= 3
    first = opened.evaluate("toys[0].points[0].input[0]")
    opened.get_by_role("button", name="Start again").click()
    assert count.inner_text() == "0"
    assert opened.evaluate("toys[0].points[0].input[0]") == first
    opened.get_by_role("button", name="Other points").click()
    assert opened.evaluate("toys[0].points[0].input[0]") != first


def test_a_site_around_the_page_tells_it_which_colours_to_have(browser: Any, path: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.html"
    frame = f'<iframe class="explore" src="{path.as_uri()}"></iframe>'
    site.write_text(f'<body data-theme="auto">{frame}<script>{THEME}</script></body>', encoding="utf-8")
    with browser.new_context(color_scheme="light") as context:
        page = context.new_page()
        page.goto(site.as_uri())
        inner = page.frames[1]
        found = []
        for theme in ("auto", "dark", "light", "dark"):
            page.evaluate(f"document.body.dataset.theme = '{theme}'")
            inner.wait_for_function(f"document.documentElement.style.colorScheme.includes('{theme.strip('auto')}')")
            ground = inner.evaluate("getComputedStyle(document.body).backgroundColor")
            found.append(sum(int(part) for part in ground.strip("rgb()").split(",")) < 200)
    assert found == [False, True, False, True]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_reads_in_light_and_in_dark(browser: Any, path: Path, scheme: str) -> None:
    with browser.new_context(
        color_scheme=scheme, viewport={"width": 360, "height": 800}, reduced_motion="reduce"
    ) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        page.locator("#count").select_option("10")
        assert page.locator("#classes .row").count() == 10
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        boxes = [page.locator(f"#toy-{name}").bounding_box() for name in TOY_LOSSES]
        assert len({round(box["y"]) for box in boxes}) == 1, "pictures are compared side by side"
        assert min(box["width"] for box in boxes) > 80
        narrow = page.locator("#path-plane svg").bounding_box()["width"]
        page.set_viewport_size({"width": 800, "height": 360})
        wait_until(page, "chartWidths['path-plane'] > 340")
        assert page.locator("#path-plane svg").bounding_box()["width"] > narrow
        # Ink on its ground, as the guidelines for accessible pages define contrast.
        selectors = (
            "p",
            "label",
            "#question-ls h3",
            "#question-maxsup h3",
            ".bar-button .who",
            ".picture-button .wrong",
            ".push.ce .slope",
            ".push.ls .slope",
            ".push.maxsup .slope",
            ".push.mbls .slope",
        )
        for selector in (*selectors, ".push .added", "dt", "caption", ".chart text", "button", "tbody th.ls"):
            ratio = page.locator(selector).first.evaluate(
                """(node) => {
                  const light = (color) => {
                    const [r, g, b] = color.match(/[\\d.]+/g).map((c) => {
                      const share = c / 255;
                      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
                    });
                    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                  };
                  const style = getComputedStyle(node);
                  const ink = light(node instanceof SVGElement ? style.fill : style.color);
                  const ground = light(getComputedStyle(document.body).backgroundColor);
                  return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
                }"""
            )
            assert ratio >= 4.5, selector


def test_every_control_has_a_name_and_the_file_is_small(opened: Any, path: Path) -> None:
    assert path.stat().st_size < MAX_BYTES
    unnamed = opened.evaluate(
        """() => [...document.querySelectorAll("input, select, button")].filter((node) =>
          !(node.labels?.length || node.getAttribute("aria-label") || node.textContent.trim()))
          .map((node) => node.id)"""
    )
    assert unnamed == []
    assert opened.get_by_role("slider").count() == 1 + 5 + 2 + 1 + 1
    assert opened.get_by_role("radio").count() == 2 + 5
