"""The documentation's site has all pages in its navigation, loads nothing from elsewhere, and can be read."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from scripts.site_pages.conf import HOME, INDEX, navigation, unlink_folders
from tests.architecture.tracked import ROOT
from tests.browser import Browser, needs_browser, unreadable
from tests.test_docs import PAGES, TEMPLATE, page

BUILD_S = 300


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "site", folder], capture_output=True, text=True, check=False, timeout=BUILD_S
    )


def test_the_navigation_has_every_page_once() -> None:
    listed = Counter(each for pages in navigation(page(f"{INDEX}.md")).values() for each in pages)
    pages = {name.removesuffix(".md") for name in PAGES if name != TEMPLATE}
    assert set(listed) == pages - {HOME, INDEX}
    assert set(listed.values()) == {1}


def test_a_page_is_in_the_section_that_names_it_first() -> None:
    index = "# All\n[no](no.md)\n## One\n[a](a.md#b) [home](../README.md)\n## Two\n[a](a.md) [up](../UP.md)\n"
    assert navigation(index) == {"One": ["docs/a"], "Two": ["UP"]}


def test_a_folder_of_the_repository_is_named_without_a_link_and_a_file_keeps_its() -> None:
    text = ["[rules](../infra/verify) and [clusters](../infra/clusters.py), see [all](README.md#use)"]
    unlink_folders(None, "docs/costs", text)
    assert text == ["`rules` and [clusters](../infra/clusters.py), see [all](README.md#use)"]


def test_a_folder_that_holds_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = build(tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "holds something other than a site; name an empty folder or an earlier site" in done.stderr
    assert (tmp_path / "mine").exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(folder)
    assert done.returncode == 0, done.stderr
    assert [each.name for each in folder.parent.iterdir()] == ["site"]
    return folder


@needs_browser
@pytest.mark.long  # a minute: all pages in five views
def test_every_page_can_be_read_in_every_view_and_asks_for_nothing(site: Path, browser: Browser) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    found = {}
    for path in pages:
        with browser.visit(path.as_uri()) as visit:
            wrong = [*unreadable(visit), *visit.asked_elsewhere(), *visit.said]
        if wrong:
            found[path.relative_to(site)] = wrong
    assert not found


@needs_browser
@pytest.mark.long  # it takes the site
def test_words_typed_into_the_search_find_the_page_that_has_them(site: Path, browser: Browser) -> None:
    with browser.visit((site / "index.html").as_uri()) as visit:
        visit.evaluate(
            "const box = document.querySelector('.sidebar-search');"
            "box.value = 'watchdog'; box.form.requestSubmit()"
        )
        visit.until("[...document.querySelectorAll('#search-results li a')].some(a => /Doubts/.test(a.text))")
        assert visit.asked_elsewhere() == []


@needs_browser
@pytest.mark.long  # it takes the site
def test_a_reader_who_chooses_the_dark_gets_dark_pictures_on_a_light_machine(
    site: Path, browser: Browser
) -> None:
    with browser.visit((site / "index.html").as_uri()) as visit:
        scheme = "getComputedStyle(document.querySelector('article img')).colorScheme"
        visit.evaluate("document.body.dataset.theme = 'dark'")
        assert visit.evaluate(scheme) == "dark"
        visit.evaluate("document.body.dataset.theme = 'light'")
        assert visit.evaluate(scheme) == "light"
