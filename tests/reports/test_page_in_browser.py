"""The page of a report in a browser: it does what it promises."""

import base64
import io
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from page_records import numbers, page_of, record_in, written_run
from pucl.corrections.clusters import PARTITIONS
from pucl.reports.page import maps
from pucl.reports.page.neighbours import NEAREST
from pucl.reports.palette import DARK, LIGHT
from pucl.text import load_texts

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement


@pytest.fixture(scope="module")
def pages(
    comparison: Path, graph_comparison: Path, text_comparison: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A page of pictures, one of pictures and graphs, and one of texts."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maps, "FEWEST_FOR_UMAP", 10**9)
        page_of(folder / "pictures.html", comparison)
        page_of(folder / "both.html", graph_comparison, comparison)
        page_of(folder / "texts.html", text_comparison)
    return folder


@pytest.fixture
def shown(browser: "Chrome", pages: Path) -> Iterator[Callable[..., "Chrome"]]:
    """Opens a page at a width, in a kind of light; afterwards nothing may have gone wrong in it."""

    def show(name: str = "pictures", *, width: int = 1300, media: str = "", scheme: str = "light") -> "Chrome":
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get((pages / f"{name}.html").as_uri())
        until(lambda: browser.execute_script("return !!document.querySelector('canvas[data-drawn]')"))
        return browser

    complaints(browser)  # Of other pages.
    yield show
    assert complaints(browser) == []


def complaints(driver: "Chrome") -> list[Any]:
    """What the browser has to say against a page since it was last asked."""
    found: list[Any] = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return found


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def one(driver: "Chrome", query: str) -> "WebElement":
    return driver.find_element("css selector", query)


def every(driver: "Chrome", query: str) -> "list[WebElement]":
    return driver.find_elements("css selector", query)


def colours_of(png: bytes) -> int:
    """How many colours a picture has, as the eye tells them."""
    with Image.open(io.BytesIO(png)) as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3) // 32
    return len(np.unique(pixels, axis=0))


def picture_of(driver: "Chrome", element: "WebElement") -> bytes:
    """What an element looks like, however tall it is."""
    clip = driver.execute_script(
        "const r = arguments[0].getBoundingClientRect();"
        "return {x: r.left + scrollX, y: r.top + scrollY, width: r.width, height: r.height, scale: 1}",
        element,
    )
    options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])


SOMEWHERE = """
const canvas = document.querySelector('[data-layer="points"]'), brush = canvas.getContext('2d');
const data = brush.getImageData(0, 0, canvas.width, canvas.height).data, ratio = canvas.width / canvas.clientWidth;
const wanted = arguments[0].map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
let count = 0, places = [];
for (let at = 0; at < data.length; at += 4) {
  const near = (colour) => colour.every((part, channel) => Math.abs(part - data[at + channel]) < 12);
  if (data[at + 3] > 150 && wanted.some(near)) {
    count++;
    if (count % 97 === 1) places.push([(at / 4) % canvas.width / ratio, Math.floor(at / 4 / canvas.width) / ratio]);
  }
}
return [count, places];
"""
"""Pixels of the map with one of these colours: how many, and where some are."""


def somewhere(driver: "Chrome", theme: str = "light") -> tuple[int, list[list[float]]]:
    colours = driver.execute_script(
        "return JSON.parse(document.getElementById('data').textContent).theme[arguments[0]].classes", theme
    )
    count, places = driver.execute_script(SOMEWHERE, colours[:2])
    return count, places


def move_to(driver: "Chrome", place: list[float], *, click: bool = False) -> None:
    canvas = one(driver, '[data-layer="points"]')
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    frame = driver.execute_script("const r = arguments[0].getBoundingClientRect(); return [r.left, r.top]", canvas)
    at = {"x": frame[0] + place[0], "y": frame[1] + place[1]}
    events = ["mouseMoved", "mousePressed", "mouseReleased"] if click else ["mouseMoved"]
    for event in events:
        button = {} if event == "mouseMoved" else {"button": "left", "clickCount": 1}
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": event} | at | button)


def similarities(driver: "Chrome") -> list[float]:
    return [float(item.get_attribute("data-similarity") or "nan") for item in every(driver, ".near button")]


@pytest.mark.slow
def test_points_are_drawn_and_hover_shows_a_picture(shown: Callable[..., "Chrome"], pictures: Path) -> None:
    driver = shown()
    count, places = somewhere(driver)
    assert count > 500
    with np.load(pictures) as file:
        names = file["classes"].tolist()
    buttons = [button.text.lstrip("\N{BLACK CIRCLE}\n ") for button in every(driver, '[data-part="classes"] button')]
    assert buttons == names
    tip = one(driver, ".canvas .tip")
    assert not tip.is_displayed()
    move_to(driver, places[len(places) // 2])
    until(tip.is_displayed)
    assert re.search(r"no\. \d+\n(similarity 0\.\d+|the anchor)", tip.text)
    picture = driver.execute_script(
        "const c = arguments[0].querySelector('canvas'); return c.toDataURL().split(',')[1]", tip
    )
    assert colours_of(base64.b64decode(picture)) > 20
    map_of = "return document.querySelector('[data-layer=points]').toDataURL()"
    before = driver.execute_script(map_of)
    one(driver, '[data-zoom="in"]').click()
    assert driver.execute_script(map_of) != before
    one(driver, '[data-zoom="all"]').click()
    assert driver.execute_script(map_of) == before


@pytest.mark.slow
def test_hover_shows_a_text_and_so_do_neighbours(shown: Callable[..., "Chrome"]) -> None:
    driver = shown("texts")
    known = set(load_texts("requests").train.texts)
    tip = one(driver, ".canvas .tip")
    _, places = somewhere(driver)
    move_to(driver, places[len(places) // 2])
    until(tip.is_displayed)
    assert one(driver, ".canvas .tip .text").text in known
    near = [each.get_attribute("title") for each in every(driver, ".near .thumb")]
    assert len(near) == NEAREST
    assert set(near) <= known


@pytest.mark.slow
def test_an_anchor_fills_the_inspector(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    titles = []

    def look() -> None:
        found = similarities(driver)
        assert len(found) == NEAREST
        assert found == sorted(found, reverse=True)
        assert found[0] > found[-1]
        title = one(driver, ".anchor h3").text
        assert title.startswith("Anchor: ")
        titles.append(title)
        marks = [mark.text for mark in every(driver, ".near .mark")]
        assert len(marks) == NEAREST
        same = sum(mark == "\N{CHECK MARK} same" for mark in marks)
        assert f"{same} of these 24 have its class" in one(driver, ".anchor").text

    look()  # Without a click.
    suggestion = every(driver, ".strip button")[5]
    suggestion.click()
    assert suggestion.get_attribute("aria-pressed") == "true"
    look()
    _, places = somewhere(driver)
    before = one(driver, ".anchor h3").text
    for place in places[:: max(1, len(places) // 8)]:
        move_to(driver, place, click=True)
        if one(driver, ".anchor h3").text != before:
            break
    look()
    every(driver, ".near button")[3].click()
    look()
    number = one(driver, '[data-choice="anchor"]')
    driver.execute_script("arguments[0].value = 7; arguments[0].dispatchEvent(new Event('change'))", number)
    look()
    assert titles[-1].endswith("no. 7")
    assert len(set(titles)) >= 4

    def choose(name: str, value: str) -> None:
        driver.execute_script(
            "const s = document.querySelector(`[data-choice='${arguments[0]}']`); s.value = arguments[1];"
            "s.dispatchEvent(new Event('change'))",
            name,
            value,
        )

    choose("run", "0")
    assert "untrained, seed 0" in one(driver, '[data-text="map"]').text
    look()
    choose("kind", "lookalikes")
    assert len(every(driver, ".strip button")) > 3


@pytest.mark.slow
def test_the_page_agrees_with_python(shown: Callable[..., "Chrome"], pages: Path) -> None:
    """Similarities that the page computes are those of the functions here, and no number is guessed from them."""
    driver = shown()
    known = record_in((pages / "pictures.html").read_text())["maps"][0]["maps"][2]
    first = known["suggested"]["closest"][0]
    codes = numbers(known["codes"], np.uint8).reshape(-1, len(known["low"]))
    values = np.array(known["low"]) + np.array(known["step"]) * codes
    cosines = np.sort(np.delete(values @ values[first["anchor"]], first["anchor"]))[::-1][:NEAREST]
    np.testing.assert_allclose(similarities(driver), cosines, atol=1e-5)
    assert one(driver, ".anchor li").text == f"{first['same']} of these 24 have its class"
    assert f"Similarity: {cosines[0]:.3f}" in one(driver, ".anchor").text
    assert [rank.text for rank in every(driver, ".near .rank")] == [f"{rank}." for rank in range(1, 25)]
    assert "expected" not in one(driver, "main").text
    assert "probab" not in one(driver, "main").text


@pytest.mark.slow
def test_charts_show_chosen_rows_and_numbers(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    panels = len(every(driver, ".curves figure"))
    assert panels >= 5

    def rows_shown() -> set[str | None]:
        return {line.get_attribute("data-row") for line in every(driver, ".curves [data-row]") if line.is_displayed()}

    assert len(every(driver, ".curves [data-row]")) == 2 * 3 * panels  # Two rows, each with two seeds and a mean.
    assert rows_shown() == {"1", "2"}
    plain = every(driver, "#curves-0 .legend button")[0]
    assert plain.text == "plain"
    plain.click()
    assert plain.get_attribute("aria-pressed") == "false"
    assert rows_shown() == {"2"}
    plain.send_keys(" ")  # By the keyboard too.
    assert rows_shown() == {"1", "2"}

    choice = one(driver, '[data-choice="number"]')
    driver.execute_script("arguments[0].value = 'knn'; arguments[0].dispatchEvent(new Event('change'))", choice)
    titles = [title.text for title in every(driver, ".scores figcaption b") if title.is_displayed()]
    assert titles == ["Nearest neighbours, %", "Difference to plain, percentage points"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(shown: Callable[..., "Chrome"], scheme: str) -> None:
    driver = shown(scheme=scheme)
    theme = {"light": LIGHT, "dark": DARK}[scheme]
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb({}, {}, {})".format(*(int(theme["paper"][at : at + 2], 16) for at in (1, 3, 5)))
    assert somewhere(driver, scheme)[0] > 500
    for section in every(driver, "section"):
        assert colours_of(picture_of(driver, section)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pictures", "both"])
def test_a_phone(shown: Callable[..., "Chrome"], name: str) -> None:
    driver = shown(name, width=390)
    wide, room = driver.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    assert wide == room <= 390
    box = one(driver, ".scroll")
    assert box.size["width"] <= 390
    assert driver.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", box)
    for control in every(driver, "select, .zoom button, .legend button, .near button, .strip button"):
        if control.is_displayed():
            assert control.size["height"] >= 40
    outside = driver.execute_script(
        "return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, svg') &&"
        " e.getBoundingClientRect().right > 391).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert outside == []


@pytest.mark.slow
def test_paper(shown: Callable[..., "Chrome"]) -> None:
    """In the dark too a page prints on white, without what can be pressed, and with what was chosen."""
    driver = shown(width=760, media="print", scheme="dark")
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for query in ("select", ".zoom", ".jump", ".strip"):
        assert not any(element.is_displayed() for element in every(driver, query))
    assert one(driver, ".anchor").is_displayed()
    assert len(every(driver, ".near li")) == NEAREST
    assert somewhere(driver, "light")[0] > 500
    printed = driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")


@pytest.mark.slow
def test_the_keyboard_reaches_everything(shown: Callable[..., "Chrome"]) -> None:
    driver = shown()
    canvas = one(driver, '[data-layer="points"]')
    before = one(driver, ".anchor h3").text
    tip = one(driver, ".canvas .tip")
    for arrow in "\ue014\ue015\ue012\ue013":  # Right, down, left, up, until there is a sample on that side.
        canvas.send_keys(arrow)
        if tip.is_displayed():
            break
    assert tip.is_displayed()
    canvas.send_keys("\ue007")  # Enter
    assert one(driver, ".anchor h3").text != before
    reached = driver.execute_script(
        "return [...document.querySelectorAll('button, select, input, a, [tabindex]')].every((e) => e.tabIndex >= 0)"
    )
    assert reached
    unnamed = driver.execute_script(
        "return [...document.querySelectorAll('main svg[role], canvas[role], button')].filter((e) =>"
        " !(e.getAttribute('aria-label') || e.textContent.trim())).length"
    )
    assert unnamed == 0
    outline = driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.slow
def test_graphs_and_tabs(shown: Callable[..., "Chrome"]) -> None:
    driver = shown("both")
    first, second = every(driver, '[role="tab"]')
    assert first.text == "FEW"
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('#part-0 .near canvas')].map((c) => c.toDataURL().split(',')[1])"
    )
    assert len(set(drawn)) > 12
    for picture in drawn:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as graph:
            assert (np.asarray(graph)[..., 3] > 0).mean() > 0.02
    assert len(every(driver, "#part-0 .near button")) == NEAREST
    first.send_keys("\ue014")
    until(lambda: every(driver, "#part-1 canvas[data-drawn]"))
    assert second.get_attribute("aria-selected") == "true"
    assert not one(driver, "#part-0").is_displayed()
    assert one(driver, "#part-1 .anchor").is_displayed()


@pytest.mark.slow
def test_without_labels_data_and_history(browser: "Chrome", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "FEWEST_FOR_UMAP", 10**9)
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    place = written_run(tmp_path / "run", "/nowhere/pictures.npz", features=features)
    complaints(browser)
    page_of(tmp_path / "report.html", place)
    browser.get((tmp_path / "report.html").as_uri())
    until(lambda: every(browser, "canvas[data-drawn]"))
    assert len(similarities(browser)) == NEAREST
    assert every(browser, ".near .mark") == []
    assert "The classes are unknown." in one(browser, '[data-text="map"]').text
    assert "it is unknown which of them are hidden positives" in one(browser, ".anchor").text
    assert complaints(browser) == []


@pytest.mark.parametrize("calibrated", [True, False])
def test_neighbours_have_r_as_a_probability_or_a_rank(
    calibrated: bool, browser: "Chrome", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "FEWEST_FOR_UMAP", 10**9)
    random = np.random.default_rng(0)
    labels = random.integers(4, size=300)
    features = (np.eye(4)[labels] + 0.4 * random.normal(size=(300, 4))).astype(np.float32)
    features[1] = features[0]  # Equal samples are ties.
    groups = np.where(random.random((300, PARTITIONS)) < 0.8, labels[:, None], 9)
    place = written_run(
        tmp_path / "run",
        "no-such-data.npz",
        correction="auto",
        features=features,
        labels=labels,
        result={"calibration.error": 0.05 if calibrated else 0.25},
        kept={"correction.groups": groups, "correction.opened": np.array(True)},
    )
    (made,) = record_in(page_of(tmp_path / "report.html", place))["maps"]
    samples = numbers(made["indices"], np.uint32)
    complaints(browser)
    browser.get((tmp_path / "report.html").as_uri())
    for anchor in (0, 1, *range(2, 300, 29)):
        choose = "const field = document.querySelector('[data-choice=anchor]');"
        browser.execute_script(choose + "field.value = arguments[0]; field.dispatchEvent(new Event('change'))", anchor)
        buttons = every(browser, '[data-part="near"] button')
        near = [int(samples[int(button.get_attribute("data-number") or -1)]) for button in buttons]
        r = np.array([(np.mean(groups[anchor] == groups[other])) ** 2 for other in near])
        places = [1 + int((r > each + 1e-9).sum()) for each in r]
        texts = [text.text for text in every(browser, ".hidden-r")]
        # As the page rounds: a byte, and whole per cents.
        wanted = [f"r {share_text(round(255 * each) / 255)}" for each in r]
        assert texts == (wanted if calibrated else [f"r rank {place}" for place in places])
    words = one(browser, '[data-text="inspector"]').text
    assert ("So it is shown as a probability" in words) == calibrated
    assert ("So it is shown as a rank" in words) != calibrated
    assert complaints(browser) == []


def share_text(value: float) -> str:
    if 0 < value < 0.01 or 0.99 < value < 1:
        return "< 1 %" if value < 0.5 else "> 99 %"
    return f"{int(100 * value + 0.5)} %"
