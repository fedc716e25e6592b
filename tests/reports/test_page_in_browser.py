"""The page of a report in a browser: it does what it promises."""

import base64
import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from browsing import (
    choose,
    colours_of,
    complaints,
    every,
    find_sample,
    inside,
    one,
    picture_of,
    text_of,
    unfold,
    until,
)
from page_records import numbers, page_of, space_in, written_run
from pucl.corrections.clusters import PARTITIONS
from pucl.reports.page import maps
from pucl.reports.page.neighbours import NEAREST
from pucl.reports.page.pairs import PAIRS
from pucl.reports.palette import DARK, LIGHT
from pucl.text import load_texts

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

Shown = Callable[..., "Chrome"]

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
        "return JSON.parse(document.getElementById('data').textContent)[arguments[0]].classes", theme
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


def similarities(driver: "Chrome", side: str = "base") -> list[float]:
    links = every(driver, f"[data-side={side}] .near a")
    return [float(link.get_attribute("data-similarity") or "nan") for link in links]


@pytest.mark.slow
def test_points_are_drawn_and_hover_shows_a_picture(shown: Shown, pictures: Path) -> None:
    driver = shown()
    unfold(driver, "map-0")
    until(lambda: every(driver, "canvas[data-drawn]"))
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
    assert re.search(r"image \d+\n.*\n(similarity 0\.\d+|the anchor)", tip.text)
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
    title = text_of(driver, ".anchor h3")
    for place in places[:: max(1, len(places) // 8)]:
        move_to(driver, place, click=True)
        if text_of(driver, ".anchor h3") != title:
            break
    until(lambda: text_of(driver, ".anchor h3") != title)
    assert "#sample-0-" in driver.current_url
    choose(driver, "map", 0)
    assert "untrained, seed 0" in text_of(driver, '[data-text="map"]')


@pytest.mark.slow
def test_texts_are_shown(shown: Shown) -> None:
    driver = shown("texts")
    known = set(load_texts("requests").train.texts)
    near = [each.get_attribute("title") for each in every(driver, ".near .thumb")]
    assert len(near) == NEAREST
    assert set(near) <= known
    pairs = [each.text for each in every(driver, ".pairs .thumb")]
    assert len(pairs) >= 12
    assert set(pairs) <= known
    find_sample(driver, pairs[3])
    until(lambda: text_of(driver, ".anchor .thumb") == pairs[3])
    unfold(driver, "map-0")
    until(lambda: every(driver, "canvas[data-drawn]"))
    _, places = somewhere(driver)
    move_to(driver, places[len(places) // 2])
    until(one(driver, ".canvas .tip").is_displayed)
    assert text_of(driver, ".canvas .tip .words") in known


@pytest.mark.slow
def test_an_anchor_has_its_neighbours_side_by_side(shown: Shown, pages: Path) -> None:
    driver = shown()
    space = space_in((pages / "pictures.html").read_text())
    labels, samples = numbers(space["labels"], np.uint16), numbers(space["indices"], np.uint32)

    def look(right: int) -> str:
        title = text_of(driver, ".anchor h3")
        (anchor,) = re.findall(r"Anchor: image (\d+), ", title)
        place = space["names"].index(anchor)
        for side, run in (("base", space["base"]), ("other", right)):
            known = space["maps"][run]
            codes = numbers(known["codes"], np.uint8).reshape(len(samples), -1)
            values = np.array(known["low"]) + np.array(known["step"]) * codes
            cosines = np.delete(values @ values[place], place)
            order = np.argsort(-cosines, kind="stable")[:NEAREST]
            np.testing.assert_allclose(similarities(driver, side), cosines[order].clip(-1, 1), atol=1e-5)
            same = int((np.delete(labels, place)[order] == labels[place]).sum())
            words = text_of(driver, f"[data-side={side}] .about")
            assert words.startswith(f"{same} of the {NEAREST} most similar have its class.")
            if known["own"] is not None:
                own = 100 * int(numbers(known["own"], np.uint16)[place]) / 65535
                assert f"{own:.0f} % of its push goes to its own class." in words
            assert text_of(driver, f"[data-side={side}] h3") == f"Under {known['name']}, seed 0"
            marks = [mark.text for mark in every(driver, f"[data-side={side}] .mark")]
            assert sum(mark == "\N{CHECK MARK} same" for mark in marks) == same
        left, right_box = (one(driver, f"[data-side={side}]").rect for side in ("base", "other"))
        assert left["y"] == right_box["y"]
        assert left["x"] + left["width"] <= right_box["x"]
        return title

    first = look(2)
    costliest = space["pairs"][0]["pairs"][0]["first"]
    assert first.startswith(f"Anchor: image {space['names'][costliest]}, ")  # The page begins with the costliest pair.
    every(driver, ".near a")[3].click()
    until(lambda: text_of(driver, ".anchor h3") != first)
    second = look(2)
    driver.back()
    until(lambda: text_of(driver, ".anchor h3") != second)
    driver.forward()
    until(lambda: text_of(driver, ".anchor h3") == second)
    choose(driver, "run", 0)
    look(0)


@pytest.mark.slow
def test_an_anchor_has_a_link_and_is_found_by_name_or_number(shown: Shown, pages: Path) -> None:
    """Names of these images are their indices in the file; links have the indices in the training set."""
    names = space_in((pages / "pictures.html").read_text())["names"]
    driver = shown(at="#sample-0-7")
    title = one(driver, ".anchor h3")
    assert text_of(driver, ".anchor h3").startswith(f"Anchor: image {names[7]}, ")
    top, bottom, height = driver.execute_script(
        "const r = arguments[0].getBoundingClientRect(); return [r.top, r.bottom, innerHeight]", title
    )
    assert 0 <= top < bottom <= height  # The page has gone there.
    assert (one(driver, ".anchor a").get_attribute("href") or "").endswith("#sample-0-7")

    def is_anchor(name: str) -> bool:
        return text_of(driver, ".anchor h3").startswith(f"Anchor: image {name}, ")

    find_sample(driver, names[12])
    until(lambda: is_anchor(names[12]))
    assert driver.current_url.endswith("#sample-0-12")
    find_sample(driver, f"image {names[3]}")
    until(lambda: is_anchor(names[3]))
    said = one(driver, '[data-text="search"]')
    matching = [name for name in names if name.startswith("3")]
    assert len(matching) > 2
    find_sample(driver, "age 3")
    until(lambda: said.text.startswith(f"1 of {len(matching)} that match"))
    assert is_anchor(matching[0])
    one(driver, '[data-part="search"] button').click()
    until(lambda: is_anchor(matching[1]))
    assert said.text.startswith(f"2 of {len(matching)} that match")
    find_sample(driver, "nothing")
    assert said.text == f"No image here has this number or name; all {len(names)} images are on this page."
    assert is_anchor(matching[1])
    driver = shown(at="#sample-0-100000")
    assert text_of(driver, '[data-text="search"]') == "image 100000 is not on this page."


@pytest.mark.slow
def test_the_list_of_pairs_is_shown_and_downloaded(shown: Shown, pages: Path, tmp_path: Path) -> None:
    driver = shown()
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    space = space_in((pages / "pictures.html").read_text())
    (made,) = space["pairs"]
    samples, labels = numbers(space["indices"], np.uint32), numbers(space["labels"], np.uint16)
    expected = [
        {
            "first": int(samples[pair["first"]]),
            "second": int(samples[pair["second"]]),
            "first_name": space["names"][pair["first"]],
            "second_name": space["names"][pair["second"]],
            "similarity": pair["similarity"],
            "cost": pair["share"] * pair["r"],
            "share": pair["share"],
            "r": pair["r"],
            "first_label": space["classes"][labels[pair["first"]]],
            "second_label": space["classes"][labels[pair["second"]]],
        }
        for pair in made["pairs"]
    ]
    assert len(expected) == PAIRS
    named = [of.text for of in every(driver, ".pairs .of")]
    assert named[:2] == [f"image {expected[0]['first_name']}", f"image {expected[0]['second_name']}"]
    assert len(named) == len(set(named)) <= 24  # At first no sample is shown twice.
    assert "times r. These pairs are of one class, by the labels: r is 1 for them" in text_of(
        driver, '[data-text="pairs"]'
    )
    one(driver, '[data-part="more"]').click()
    assert len(every(driver, ".pairs li")) == PAIRS
    assert not one(driver, '[data-part="more"]').is_displayed()
    for kind in ("csv", "json"):
        one(driver, f'[data-download="{kind}"]').click()
        file = tmp_path / f"costliest-pairs.{kind}"
        until(lambda: file.is_file() and file.read_text().endswith("\n"))  # noqa: B023
    record = json.loads((tmp_path / "costliest-pairs.json").read_text())
    assert (record["by"], record["row"], record["seed"]) == (made["name"], "plain", 0)
    assert record["pairs"] == expected
    with (tmp_path / "costliest-pairs.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert [{name: value or None for name, value in row.items()} for row in rows] == [
        {name: None if value is None else approx_text(value) for name, value in row.items()} for row in expected
    ]


def approx_text(value: object) -> str:
    """A value as JavaScript writes it."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


@pytest.mark.slow
def test_charts_show_chosen_rows_and_numbers(shown: Shown) -> None:
    driver = shown()
    assert not any(figure.is_displayed() for figure in every(driver, ".curves figure"))
    unfold(driver, "curves-0")
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

    choose(driver, "number", "knn")
    titles = [title.text for title in every(driver, ".scores figcaption b") if title.is_displayed()]
    assert titles == ["Nearest neighbours, %", "Difference to plain, percentage points"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(shown: Shown, scheme: str) -> None:
    driver = shown(scheme=scheme)
    unfold(driver, "map-0")
    until(lambda: every(driver, "canvas[data-drawn]"))
    theme = {"light": LIGHT, "dark": DARK}[scheme]
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb({}, {}, {})".format(*(int(theme["paper"][at : at + 2], 16) for at in (1, 3, 5)))
    assert somewhere(driver, scheme)[0] > 500
    for section in every(driver, "section"):
        assert colours_of(picture_of(driver, section)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pictures", "both"])
def test_a_phone(shown: Shown, name: str) -> None:
    driver = shown(name, width=390)
    wide, room = driver.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    assert wide == room <= 390
    assert one(driver, ".verdict").is_displayed()
    head = next(cell for cell in every(driver, "thead th") if cell.text.startswith("to plain"))
    assert inside(driver, head)
    differences = every(driver, "#part-0 tbody tr td:nth-child(3)")
    assert len(differences) == len(every(driver, "#part-0 tbody tr"))
    assert all(inside(driver, cell) for cell in differences)
    for folded in ("map-0", "curves-0", "run-0"):
        unfold(driver, folded)
    for control in every(driver, "select, input, button, .near a, .pairs a, summary"):
        if control.is_displayed():
            assert control.size["height"] >= 40
    outside = driver.execute_script(
        "return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, svg') &&"
        " e.getBoundingClientRect().right > 391).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert outside == []


@pytest.mark.slow
def test_paper(shown: Shown) -> None:
    """In the dark too a page prints on white, without what can be pressed, and with what was chosen."""
    driver = shown(width=760, media="print", scheme="dark")
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for query in ("select", "button[type=submit]", "[data-download]", ".zoom", ".jump"):
        assert not any(element.is_displayed() for element in every(driver, query))
    assert one(driver, ".anchor").is_displayed()
    assert len(every(driver, ".near li")) == 2 * NEAREST
    until(lambda: every(driver, "canvas[data-drawn]"))
    assert somewhere(driver, "light")[0] > 500
    assert not one(driver, '[data-layer="marks"]').is_displayed()  # It would cover the points.
    assert all(figure.is_displayed() for figure in every(driver, ".curves figure"))
    printed = driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")


@pytest.mark.slow
def test_what_was_folded_is_folded_again_after_printing(shown: Shown) -> None:
    driver = shown()
    folded = "return [...document.querySelectorAll('details')].map((e) => e.open)"
    assert driver.execute_script(folded) == [False] * 4
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script(folded) == [True] * 4
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert driver.execute_script(folded) == [False] * 4
    one(driver, '.jump a[href="#map-0"]').click()
    until(lambda: driver.execute_script(folded) == [True, False, False, False])


@pytest.mark.slow
def test_the_keyboard_reaches_everything(shown: Shown) -> None:
    driver = shown()
    unfold(driver, "map-0")
    until(lambda: every(driver, "canvas[data-drawn]"))
    canvas = one(driver, '[data-layer="points"]')
    before = text_of(driver, ".anchor h3")
    tip = one(driver, ".canvas .tip")
    for arrow in "\ue014\ue015\ue012\ue013":  # Right, down, left, up, until there is a sample on that side.
        canvas.send_keys(arrow)
        if tip.is_displayed():
            break
    assert tip.is_displayed()
    canvas.send_keys("\ue007")  # Enter
    until(lambda: text_of(driver, ".anchor h3") != before)
    reached = driver.execute_script(
        "return [...document.querySelectorAll('button, select, input, a, summary, canvas[tabindex]')]"
        ".every((e) => e.tabIndex >= 0)"
    )
    assert reached
    unnamed = driver.execute_script(
        "return [...document.querySelectorAll('main svg[role], canvas[role], button, a')].filter((e) =>"
        " !(e.getAttribute('aria-label') || e.textContent.trim())).length"
    )
    assert unnamed == 0
    outline = driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.slow
def test_graphs_and_tabs(shown: Shown) -> None:
    driver = shown("both")
    first, second = every(driver, '[role="tab"]')
    assert first.text == "FEW"
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('#part-0 .near canvas')].map((c) => c.toDataURL().split(',')[1])"
    )
    assert len(set(drawn)) > NEAREST / 2
    for picture in drawn:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as graph:
            assert (np.asarray(graph)[..., 3] > 0).mean() > 0.02
    assert len(every(driver, "#part-0 [data-side=base] .near a")) == NEAREST
    assert len(every(driver, "#part-0 .pairs canvas")) >= 12
    first.send_keys("\ue014")
    until(lambda: every(driver, "#part-1 .near a"))
    assert second.get_attribute("aria-selected") == "true"
    assert not one(driver, "#part-0").is_displayed()
    assert one(driver, "#part-1 .anchor").is_displayed()
    driver.execute_script("location.hash = '#sample-0-5'")  # A link leads to the other part.
    until(one(driver, "#part-0").is_displayed)
    assert text_of(driver, "#part-0 .anchor h3").startswith("Anchor: graph 5, ")


@pytest.mark.slow
def test_without_labels_data_and_history(browser: "Chrome", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "FEWEST_FOR_UMAP", 10**9)
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    place = written_run(tmp_path / "run", "/nowhere/pictures.npz", features=features)
    complaints(browser)
    page_of(tmp_path / "report.html", place)
    browser.get((tmp_path / "report.html").as_uri())
    assert len(similarities(browser)) == NEAREST
    assert every(browser, ".near .mark") == []
    assert every(browser, ".pairs .mark") == []
    assert len(every(browser, ".pairs li")) == 12
    assert "need not be hidden positives" in text_of(browser, '[data-text="pairs"]')
    unfold(browser, "map-0")
    assert "The classes are unknown." in text_of(browser, '[data-text="map"]')
    assert "it is unknown which samples are hidden positives" in text_of(browser, ".anchor")
    assert not one(browser, '[data-choice="run"]').is_displayed()  # There is one run.
    assert complaints(browser) == []


@pytest.mark.slow
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
    made = space_in(page_of(tmp_path / "report.html", place))
    samples = numbers(made["indices"], np.uint32)
    complaints(browser)
    browser.get((tmp_path / "report.html").as_uri())
    for anchor in (0, 1, *range(2, 300, 29)):
        browser.execute_script("location.hash = arguments[0]", f"#sample-0-{anchor}")
        until(lambda: text_of(browser, ".anchor h3").startswith(f"Anchor: image {anchor},"))  # noqa: B023
        links = every(browser, ".near a")
        near = [int(samples[int(link.get_attribute("data-place") or -1)]) for link in links]
        r = np.array([(np.mean(groups[anchor] == groups[other])) ** 2 for other in near])
        places = [1 + int((r > each + 1e-9).sum()) for each in r]
        texts = [text.text for text in every(browser, ".hidden-r")]
        # As the page rounds: a byte, and whole per cents.
        wanted = [f"r {share_text(round(255 * each) / 255)}" for each in r]
        assert texts == (wanted if calibrated else [f"r rank {place}" for place in places])
    assert ("r " in text_of(browser, ".pairs p")) == calibrated
    words = text_of(browser, '[data-text="inspector"]')
    assert ("So it is shown as a probability" in words) == calibrated
    assert ("So it is shown as a rank" in words) != calibrated
    assert complaints(browser) == []


def share_text(value: float) -> str:
    if 0 < value < 0.01 or 0.99 < value < 1:
        return "< 1 %" if value < 0.5 else "> 99 %"
    return f"{int(100 * value + 0.5)} %"
