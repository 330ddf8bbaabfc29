"""Pages as a browser shows them: quiet, drawn, sortable, readable by keyboard, in the dark and on a
phone.
"""

from __future__ import annotations

import base64
import csv
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import EVIL

PAGES = ("compare_file", "report_file")
PHONE = (360, 740)
DESKTOP = (1280, 900)


class Page:
    """One page in the browser, in a tab of its own."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser, self.path = browser, path
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.switch_to.new_window("tab")
        self.tab = browser.current_window_handle
        self.resize(DESKTOP)
        self.prefer("light")
        browser.get(path.as_uri())
        self.wait("return document.querySelectorAll('figure.chart:not([data-drawn])').length === 0")
        self.logs = {kind: browser.get_log(kind) for kind in ("browser", "performance")}

    def as_at_first(self) -> Page:
        """In front, on a desktop, light, everything closed."""
        self.browser.switch_to.window(self.tab)
        self.resize(DESKTOP)
        self.prefer("light")
        self.run(
            """delete document.documentElement.dataset.theme;
            document.querySelectorAll("button.more[aria-expanded=true]").forEach((button) => button.click());
            document.querySelectorAll("main details").forEach((details) => { details.open = false; });"""
        )
        return self

    def run(self, script: str, *values: Any) -> Any:
        return self.browser.execute_script(script, *values)

    def wait(self, script: str) -> None:
        end = time.monotonic() + 20
        while not self.run(script):
            assert time.monotonic() < end, f"never became true: {script}"
            time.sleep(0.02)

    def prefer(self, theme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, size: tuple[int, int]) -> None:
        metrics = {
            "width": size[0],
            "height": size[1],
            "deviceScaleFactor": 1,
            "mobile": size == PHONE,
        }
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def background(self) -> str:
        return str(self.run("return getComputedStyle(document.body).backgroundColor"))

    def column(self, table: str, name: str) -> list[str]:
        """What is sorted by, of the rows that are shown, from top to bottom."""
        return list(
            self.run(
                """const box = document.getElementById(arguments[0]);
            const at = box.querySelector(`th[data-name="${arguments[1]}"]`).cellIndex;
            return [...box.querySelector("tbody").rows].filter((row) => !row.matches(".detail") && !row.hidden)
              .map((row) => row.cells[at].dataset.value ?? row.cells[at].textContent)""",
                table,
                name,
            )
        )

    def sort(self, table: str, name: str) -> str:
        """Press the heading; how it says that it sorts now."""
        return str(
            self.run(
                """const heading = document.querySelector(`#${arguments[0]} th[data-name="${arguments[1]}"]`);
            heading.querySelector("button").click(); return heading.getAttribute("aria-sort")""",
                table,
                name,
            )
        )

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()


@pytest.fixture(scope="module")
def pages(browser: Any) -> dict[str, Page]:
    """Pages that are open already: drawing all charts of one takes a second."""
    return {}


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Any, pages: dict[str, Page]) -> Page:
    if request.param not in pages:
        pages[request.param] = Page(browser, request.getfixturevalue(request.param))
    return pages[request.param].as_at_first()


every_page = pytest.mark.parametrize("page", PAGES, indirect=True)
with_details = pytest.mark.parametrize("page", ["compare_file", "report_file"], indirect=True)
compared = pytest.mark.parametrize("page", ["compare_file"], indirect=True)
reported = pytest.mark.parametrize("page", ["report_file"], indirect=True)


@every_page
def test_a_page_is_quiet_asks_for_nothing_and_draws_its_charts(page: Page) -> None:
    assert page.logs["browser"] == []
    events = [json.loads(entry["message"])["message"] for entry in page.logs["performance"]]
    urls = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in urls if not url.startswith(("data:", "blob:"))] == [page.path.as_uri()]
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    drawn = page.run("""return [...document.querySelectorAll(".plot")].map((plot) => {
          const canvas = plot.querySelector("canvas");
          if (!canvas) return plot.querySelectorAll("svg :is(.mark-rect, .mark-symbol, .mark-line) path").length;
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        })""")
    assert bool(drawn) == ("report" in page.path.name)
    assert min(drawn, default=2) > 1
    # No alert was opened, and names stand there as text.
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert EVIL in page.run("return document.querySelector('h1').textContent")
    # The first line is for those who decide.
    opening = page.run("return document.querySelector('main').firstElementChild.textContent")
    assert opening.startswith(EVIL)
    assert " queries (" in opening


@reported
def test_a_chart_says_what_it_shows_to_those_who_cannot_see_it(page: Page) -> None:
    page.wait("return document.querySelectorAll('figure[data-drawn]').length > 0")
    captions = page.run(
        """return [...document.querySelectorAll("figure[data-drawn]")].map((figure) => [
          figure.querySelector(".plot").getAttribute("aria-label"),
          figure.querySelector("h3").textContent + ". " + figure.querySelector("figcaption p").textContent])"""
    )
    assert captions
    assert all(label == caption for label, caption in captions)


@reported
def test_dark_is_dark_whether_the_system_or_the_reader_wants_it(page: Page) -> None:
    assert page.background() == "rgb(255, 255, 255)"
    page.prefer("dark")
    assert page.background() == "rgb(21, 24, 27)"
    background = "return getComputedStyle(document.querySelector('.plot svg')).backgroundColor"
    page.wait(f"{background} === 'rgb(21, 24, 27)'")
    page.run("document.getElementById('theme').click()")
    assert page.background() == "rgb(255, 255, 255)"
    page.wait(f"{background} === 'rgb(255, 255, 255)'")


@every_page
def test_on_a_phone_nothing_but_tables_scrolls_sideways(page: Page) -> None:
    page.resize(PHONE)
    page.wait(
        "return [...document.querySelectorAll('.chart .plot')].every((p) => p.scrollWidth <="
        " p.clientWidth)"
    )
    page.run("document.querySelectorAll('button.more').forEach((button) => button.click())")
    page.run(
        "document.querySelectorAll('main details').forEach((details) => { details.open = true; })"
    )
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return innerWidth") == PHONE[0]
    # Where columns are out of sight, a hint stands above the table.
    page.wait(
        """return [...document.querySelectorAll(".table")].every((box) => {
          const scroller = box.querySelector(".scroll");
          return box.querySelector(".hint").hidden === scroller.scrollWidth <= scroller.clientWidth + 1;
        })"""
    )


@compared
def test_no_card_stands_alone_in_its_row(page: Page) -> None:
    neighbours = """const box = document.querySelector(".key-numbers"), card = box.firstElementChild;
      const copies = (count) => Array.from({ length: count }, () => card.cloneNode(true));
      const cards = [...box.children];
      const rows = [2, 3, 4, 5, 6].map((count) => {
        box.replaceChildren(...copies(count));
        const tops = [...box.children].map((copy) => copy.getBoundingClientRect().top);
        return Math.min(...tops.map((top) => tops.filter((other) => other === top).length));
      });
      box.replaceChildren(...cards);
      return rows;"""
    for width in (360, 800, 1280):
        page.resize((width, 900))
        assert min(page.run(neighbours)) > 1, width
    page.resize(DESKTOP)
    assert page.run(neighbours)[:4] == [2, 3, 4, 5]


@reported
def test_numbers_sort_as_numbers_in_both_directions_and_text_as_text(page: Page) -> None:
    for column in ("gain", "splits"):
        assert page.sort("features", column) == "descending"
        down = [float(n) for n in page.column("features", column)]
        assert down == sorted(down, reverse=True)
        assert page.sort("features", column) == "ascending"
        assert [float(n) for n in page.column("features", column)] == sorted(down)
        assert len(set(down)) > 3
    assert down != sorted(down, key=str, reverse=True)
    names = page.column("features", "feature")
    assert page.sort("features", "feature") == "ascending"
    assert page.column("features", "feature") == sorted(names)


@compared
def test_a_missing_number_comes_last_in_both_directions(page: Page) -> None:
    for _ in range(2):
        page.sort("segments-2", "low")
        ends = page.column("segments-2", "low")
        assert "" in ends
        assert ends.index("") == len(ends) - ends.count("")


@reported
def test_a_search_leaves_the_rows_that_hold_it(page: Page) -> None:
    page.browser.find_element("css selector", "#features input").send_keys("F3")
    assert page.column("features", "feature") == [f"{EVIL}f3"]
    assert (
        page.run("return document.querySelector('#features output').textContent") == "1 of 6 rows"
    )
    page.press(*["\b"] * 2)  # backspace
    assert len(page.column("features", "feature")) == 6


@pytest.mark.parametrize("page", PAGES[:2], indirect=True)  # the third one has no rows to open
def test_a_row_opens_by_keyboard(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    state = """const button = document.querySelector("#worst button.more");
      const detail = document.getElementById(button.getAttribute("aria-controls"));
      return [button.getAttribute("aria-expanded"), getComputedStyle(detail).display,
              document.activeElement === button]"""
    assert page.run(state) == ["false", "none", False]
    headings = page.run(
        "return document.querySelectorAll('#worst > .scroll > table > thead button').length"
    )
    page.run("document.querySelector('#worst thead button').focus()")
    page.press(*[Keys.TAB] * headings)
    assert page.run(state) == ["false", "none", True]
    assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press(Keys.ENTER)
    assert page.run(state) == ["true", "table-row", True]
    page.press(Keys.SPACE)
    assert page.run(state) == ["false", "none", True]


@reported
def test_pictures_and_numbers_can_be_taken_out(page: Page, tmp_path: Path) -> None:
    page.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.run(
        """document.querySelectorAll("#queries-values .take button").forEach((button) => button.click());
        document.querySelector("#features > .tools button").click()"""
    )
    expected = {
        "queries-values.svg",
        "queries-values.png",
        "queries-values.csv",
        "queries-values.json",
        "features.csv",
    }
    end = time.monotonic() + 10
    while {p.name for p in tmp_path.iterdir()} != expected:
        assert time.monotonic() < end, sorted(p.name for p in tmp_path.iterdir())
        time.sleep(0.02)
    assert (tmp_path / "queries-values.svg").read_text().startswith("<svg")
    assert (tmp_path / "queries-values.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads((tmp_path / "queries-values.json").read_text())
    with open(tmp_path / "queries-values.csv", newline="") as file:
        same = list(csv.DictReader(file))
    assert [row["queries"] for row in rows] == [int(row["queries"]) for row in same]
    with open(tmp_path / "features.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert {row["feature"] for row in table} == {f"'{EVIL}f{i}" for i in range(6)}  # no formula


@every_page
def test_in_print_the_page_is_short_and_the_navigation_is_gone(page: Page) -> None:
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.run("dispatchEvent(new Event('beforeprint'))")
    try:
        displayed = (
            "return [...document.querySelectorAll('nav')].map((e) => getComputedStyle(e).display)"
        )
        assert set(page.run(displayed)) <= {"none"}
        count_visible = (
            "return [...document.querySelectorAll('{}')].filter((e) =>"
            " e.getClientRects().length).length"
        )
        assert page.run(count_visible.format("main details:not(.take)")) == 0
        assert page.run(count_visible.format("tr.detail, tr.far")) == 0
    finally:
        page.run("dispatchEvent(new Event('afterprint'))")
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@compared
def test_without_a_script_tables_and_text_are_there(page: Page) -> None:
    page.browser.switch_to.new_window("tab")
    try:
        page.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        page.browser.get(page.path.as_uri())
        details = page.browser.find_elements("css selector", "tr.detail")
        assert details
        assert all(detail.is_displayed() for detail in details[:5])
    finally:
        page.browser.close()
        page.browser.switch_to.window(page.tab)


@reported
def test_a_report_is_ten_sheets_of_a4_at_most(page: Page) -> None:
    page.run("dispatchEvent(new Event('beforeprint'))")
    try:
        printed = page.browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})[
            "data"
        ]
    finally:
        page.run("dispatchEvent(new Event('afterprint'))")
    sheets = re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))
    assert 2 <= len(sheets) <= 10
