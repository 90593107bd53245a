"""Configure Sphinx, with which scripts/site builds a site from README, docs/ and the pages next to this file.

The pages stay Markdown as a forge shows it: navigation comes from the index, docs/README.md. To add a page,
add a line there. Pages load nothing from outside the site.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README"
HOME = "README"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s:]+)\)")
_PAGE = re.compile(r"\]\(([^)#\s]+)\.md(?:#[^)]*)?\)")

project = "Slipway"
author = "The Slipway authors"
copyright = author  # noqa: A001 - Sphinx calls it so
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = HOME
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build", "containers", "infra", "jobs", "node_modules", "slipway", "tests", "yard"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Slipway"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # it would load other pages, which browsers refuse for local files
html_permalinks_icon = "#"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}


class Application(Protocol):
    """The part of Sphinx's application that this file uses."""

    outdir: Path

    def connect(self, event: str, callback: object) -> int: ...


def setup(app: Application) -> None:
    app.connect("source-read", unlink_folders)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_home)


def navigation(index: str) -> dict[str, list[str]]:
    """Return the pages of each section of the index, in order, each at its first mention."""
    _, *parts = _SECTION.split(index)
    named: set[str] = set()
    found: dict[str, list[str]] = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        pages = [page for page in map(_document, _PAGE.findall(text)) if page != HOME]
        found[title] = [page for page in dict.fromkeys(pages) if page not in named]
        named.update(pages)
    return found


def _document(target: str) -> str:
    """Return the name of a page for Sphinx, from a link of the index."""
    return target.removeprefix("../") if target.startswith("../") else f"docs/{target}"


def add_navigation(_app: object, document: str, source: list[str]) -> None:
    """Put all pages into the navigation of the site, behind the text of the first one."""
    if document != HOME:
        return
    index = (ROOT / f"{INDEX}.md").read_text(encoding="utf-8")
    sections = {"Start": [INDEX], **navigation(index)}
    for title, pages in sections.items():
        if pages:
            listed = "\n".join(f"/{page}" for page in pages)
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {title}\n:maxdepth: 1\n\n{listed}\n```\n"


def unlink_folders(_app: object, document: str, source: list[str]) -> None:
    """Replace links to folders of the repository by their text: the site has no pages for them."""
    here = (ROOT / document).parent

    def without_link(link: re.Match[str]) -> str:
        return f"`{link[1]}`" if (here / link[2]).is_dir() else link[0]

    source[0] = _LINK.sub(without_link, source[0])


def write_home(app: Application, problem: Exception | None) -> None:
    """Write README as the home page, index.html, which servers look for."""
    if problem is None and (app.outdir / f"{HOME}.html").exists():
        shutil.copyfile(app.outdir / f"{HOME}.html", app.outdir / "index.html")
