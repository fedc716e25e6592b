"""Finished runs for a page, the figures that were drawn, and a browser."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.figure import Figure

from browsing import complaints, until
from page_records import page_of
from pucl.frameworks.recipes import recipe
from pucl.reports.page import maps
from pucl.runs.tables import compare_corrections
from small_runs import save_pictures

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

BROWSER, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
CLASSES = ("top</script><b>", "bottom & 'more'")
"""Names that would break a page that does not escape them."""


@pytest.fixture
def plain_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Principal components instead of UMAP, which takes a quarter of a minute to compile."""
    monkeypatch.setattr(maps, "FEWEST_FOR_UMAP", 10**9)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that a test saves."""
    saved: list[Figure] = []
    savefig = Figure.savefig

    def keep(figure: Figure, *arguments: Any, **options: Any) -> None:
        saved.append(figure)
        savefig(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return saved


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kinds of small pictures, of classes with awkward names."""
    return save_pictures(tmp_path_factory.mktemp("data") / "pictures.npz", 100, 16, CLASSES)


@pytest.fixture(scope="session")
def comparison(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows with two seeds each."""
    out = tmp_path_factory.mktemp("runs") / "pictures"
    settings: dict[str, Any] = {"dim": 8, "stem": "half", "width": 8, "monitor": 1, "probes": "linear,knn"}
    base = recipe("simclr", str(pictures), epochs=3, batch_size=16, **settings)
    compare_corrections(base, ["untrained", "plain", "pucl"], 2, out, command="pucl compare simclr <pictures>")
    return out


@pytest.fixture(scope="session")
def graph_comparison(few_graphs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rows of InfoGraph on graphs of four shapes."""
    out = tmp_path_factory.mktemp("runs") / "few"
    base = recipe("infograph", str(few_graphs), epochs=2, batch_size=16, probes="knn")
    compare_corrections(base, ["plain", "pucl"], 1, out)
    return out


@pytest.fixture(scope="session")
def text_comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One row of pairs on some of the generated texts."""
    out = tmp_path_factory.mktemp("runs") / "texts"
    settings: dict[str, Any] = {"limit": 80, "buckets": 256, "width": 16, "probes": "retrieval"}
    base = recipe("pairs", "requests", epochs=1, batch_size=16, **settings)
    compare_corrections(base, ["plain"], 1, out)
    return out


@pytest.fixture(scope="session")
def pages(
    comparison: Path, graph_comparison: Path, text_comparison: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A page of pictures, one of graphs and pictures, and one of texts."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maps, "FEWEST_FOR_UMAP", 10**9)
        page_of(folder / "pictures.html", comparison)
        page_of(folder / "both.html", graph_comparison, comparison)
        page_of(folder / "texts.html", text_comparison)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator["Chrome"]:
    """Chromium without a window."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if BROWSER is None or DRIVER is None:
        pytest.skip("Chromium and its driver are not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def shown(browser: "Chrome", pages: Path) -> Iterator[Callable[..., "Chrome"]]:
    """Opens a page at a width, in a kind of light; afterwards nothing may have gone wrong in it."""

    def show(
        name: str = "pictures", at: str = "", *, width: int = 1300, media: str = "", scheme: str = "light"
    ) -> "Chrome":
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get("about:blank")  # Otherwise another fragment alone would not load the page again.
        browser.get((pages / f"{name}.html").as_uri() + at)
        until(lambda: browser.execute_script("return !!document.querySelector('.near a')"))
        return browser

    complaints(browser)  # Of other pages.
    yield show
    assert complaints(browser) == []
