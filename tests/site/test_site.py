"""The built site, page by page: every link leads somewhere, nothing comes from the network, no page complains.

`make docs` builds it; in continuous integration that comes before the tests.
"""

import re
import time
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from chromium import CHROMIUM, NO_CHROMIUM, dump_dom
from torch.nn import Module

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(SITE.rglob("*.html"))
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}

pytestmark = pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="no built site: run `make docs` first")
#: How wide a page is: on a phone its content scrolls by itself, and the document does not tell.
WIDTH = "Math.max(...[document.documentElement, ...document.querySelectorAll('.content')].map((e) => e.scrollWidth))"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)


class Links(HTMLParser):
    """What a page fetches, where it leads, and the names that can be led to."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value is None:
                continue
            if (tag, name) in FETCHED and not value.startswith("data:"):
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif name == "id":
                self.names.add(value)


@cache
def read(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text(encoding="utf-8"))
    return links


def target(page: Path, link: str) -> tuple[Path, str]:
    parts = urlsplit(link)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return path, unquote(parts.fragment)


def test_the_page_of_losses_lists_what_they_share_and_nothing_of_torch():
    names = {name.rpartition(".")[2] for name in read(SITE / "api" / "losses.html").names if ".BackwardLoss." in name}
    assert {"certify", "evaluate", "bind", "lower_bounds"} <= names
    assert not names & (set(dir(Module)) - {"forward"})


def test_every_link_leads_somewhere():
    broken = []
    for page in PAGES:
        for link in read(page).links:
            if urlsplit(link).scheme in ("http", "https", "mailto"):
                continue
            path, name = target(page, link)
            made_by_script = "explorer" in path.parts and "=" in name  # a state of the Explorer is no name in it
            there = not name or made_by_script or path.suffix != ".html" or name in read(path).names
            if not (path.is_file() and there):
                broken.append((page.relative_to(SITE).as_posix(), link))
    assert broken == []


def test_nothing_is_fetched_from_the_network_and_everything_is_there():
    missing = []
    for page in PAGES:
        for link in read(page).fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not target(page, link)[0].is_file():
                missing.append((page.relative_to(SITE).as_posix(), link))
    styles = {path: path.read_text(encoding="utf-8") for path in SITE.rglob("*.css")}
    missing += [(path.name, url) for path, text in styles.items() for url in re.findall(r"url\((https?:[^)]*)", text)]
    assert missing == []


def test_the_first_page_leads_to_every_guide_with_one_click():
    index = SITE / "index.html"
    reached = {target(index, link)[0] for link in read(index).links}
    guides = set((SITE / "guides").glob("*.html"))
    assert len(guides) >= 8
    assert guides <= reached
    assert SITE / "explorer" / "index.html" in {target(p, link)[0] for p in PAGES for link in read(p).links}


def test_every_gallery_page_ends_in_a_picture():
    for folder, least in (("auto_gallery", 12), ("auto_playbook", 6)):
        pages = list((SITE / folder).glob("plot_*.html"))
        assert len(pages) >= least
        for page in pages:
            assert any("sphx_glr_plot" in link for link in read(page).fetched), page.name


@needs_chromium
def test_no_page_complains_or_is_wider_than_a_phone(browser):
    problems = {}
    for page in PAGES:
        browser.problems.clear()
        browser.open(page.as_uri(), width=390, height=844)
        formulas, drawn, errors, width = browser.run(
            "[...['span.math, div.math', '.math .katex', '.katex-error']"
            f".map((what) => document.querySelectorAll(what).length), {WIDTH}]"
        )
        if browser.problems or errors or drawn < formulas or width > 390:
            problems[page.relative_to(SITE).as_posix()] = (list(browser.problems), formulas, drawn, errors, width)
    assert problems == {}


@needs_chromium
def test_a_click_on_a_card_opens_its_guide(browser):
    browser.open((SITE / "index.html").as_uri())
    box = browser.run(
        "(() => { const cards = [...document.querySelectorAll('.pick .sd-card')];"
        " const a = cards.find((card) => card.textContent.includes('annotators'));"
        " a.scrollIntoView({ block: 'center', behavior: 'instant' }); const b = a.getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.mouse("mousePressed", *box)
    browser.mouse("mouseReleased", *box)
    for _ in range(200):
        where = browser.run("document.readyState + location.pathname")
        if where.startswith("complete") and where.endswith("guides/annotators.html"):
            break
        time.sleep(0.05)
    assert browser.run("document.querySelector('h1').textContent").startswith("Several annotators")


@needs_chromium
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["index", "guides/noisy", "choose-a-loss", "theory", "auto_gallery/index"])
def test_no_sideways_scrolling(browser, width, name):
    browser.open((SITE / f"{name}.html").as_uri(), width=width, height=800)
    assert browser.run(WIDTH) <= width


@needs_chromium
def test_search_works_from_the_disk():
    dom = dump_dom(SITE / "search.html", query="?q=squeezing")
    results = dom.split('id="search-results"', 1)[1]
    assert "theory.html" in results


def test_every_page_says_its_version():
    import tproper

    ours = [page for page in PAGES if not {"explorer", "_static", "_modules"} & set(page.relative_to(SITE).parts)]
    assert ours
    for page in ours:
        text = page.read_text(encoding="utf-8")
        assert f"tproper {tproper.__version__}" in text, page
