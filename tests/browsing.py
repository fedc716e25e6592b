"""What tests do with a page in a browser."""

import base64
import io
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement


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
    """The first element that a query finds."""
    return driver.find_element("css selector", query)


def text_of(driver: "Chrome", query: str) -> str:
    """The text of the first element that a query finds.

    Found and read in one step: a page may replace an element between two, and reading the old one is an error.
    """
    text: str = driver.execute_script("return document.querySelector(arguments[0]).innerText.trim()", query)
    return text


def every(driver: "Chrome", query: str) -> "list[WebElement]":
    """All elements that a query finds."""
    return driver.find_elements("css selector", query)


def choose(driver: "Chrome", name: str, value: object) -> None:
    """Choose an option of a list."""
    driver.execute_script(
        "const choice = document.querySelector(`[data-choice='${arguments[0]}']`); choice.value = arguments[1];"
        "choice.dispatchEvent(new Event('change'))",
        name,
        str(value),
    )


def find_sample(driver: "Chrome", text: str) -> None:
    """Type a name or number, and press Enter."""
    field = one(driver, '[data-choice="anchor"]')
    field.clear()
    field.send_keys(text, "\ue007")


def unfold(driver: "Chrome", name: str) -> None:
    """Open a part that is folded away."""
    summary = one(driver, f"#{name} summary")
    summary.click()
    until(lambda: one(driver, f"#{name}").get_attribute("open") is not None)


def inside(driver: "Chrome", element: "WebElement") -> bool:
    """Whether an element is between the left and the right edge of the window."""
    left, right, width = driver.execute_script(
        "const r = arguments[0].getBoundingClientRect(); return [r.left, r.right, innerWidth]", element
    )
    return bool(0 <= left < right <= width)


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
