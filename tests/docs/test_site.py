"""The documentation site: every public name is on it, it builds strictly, and all its links lead somewhere."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from pages import REPOSITORY
from public import PACKAGES

import tinymem
from tinymem.errors import MissingExtraError, TinymemError

REFERENCE = REPOSITORY / "docs" / "reference"
DESCRIBED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)

SOURCES = (REPOSITORY / "tinymem").is_dir()
needs_sources = pytest.mark.skipif(not SOURCES, reason="the tests run beside an installed wheel")


def described() -> set[str]:
    """The names on the pages of the reference."""
    return {name for page in REFERENCE.glob("*.md") for name in DESCRIBED.findall(page.read_text("utf-8"))}


def things_at(names: set[str]) -> dict[str, object]:
    found = {}
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            found[name] = getattr(import_module(module), attribute)
        except MissingExtraError:
            continue  # the framework is not installed
    return found


@needs_sources
def test_every_public_name_is_in_the_reference() -> None:
    shown = described()
    missing = [f"tinymem.{name}" for name in tinymem.__all__ if f"tinymem.{name}" not in shown]
    things = {id(thing) for thing in things_at(shown).values()}
    for package in PACKAGES[1:]:
        held = import_module(package)
        missing += [f"{package}.{name}" for name in held.__all__ if id(getattr(held, name)) not in things]
    errors = [thing for thing in vars(import_module("tinymem.errors")).values() if inspect.isclass(thing)]
    missing += [error.__name__ for error in errors if issubclass(error, TinymemError) and id(error) not in things]
    assert missing == []


@needs_sources
def test_everything_in_the_reference_is_there_and_documented() -> None:
    things = things_at(described())
    assert len(things) >= 100
    for name, thing in things.items():
        assert inspect.getdoc(thing) or name.endswith("PruneStrategy"), name
        for method in public_methods(thing):
            assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


@needs_sources
def test_every_page_has_a_place_in_the_navigation() -> None:
    places = set(re.findall(r"[:-] (\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    docs = REPOSITORY / "docs"
    assert {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} - places == set()


def public_methods(thing: object) -> list[str]:
    """The public methods and properties of a class, those of its bases here too."""
    if not inspect.isclass(thing):
        return []
    held = {name: value for base in reversed(thing.__mro__) for name, value in vars(base).items()}
    code = {name: getattr(value, "fget", None) or getattr(value, "__func__", value) for name, value in held.items()}
    ours = {name for name, one in code.items() if inspect.isfunction(one) and one.__module__.startswith("tinymem")}
    return sorted(name for name in ours if not name.startswith("_"))


# -- the built site ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs is not installed (extra: test-all)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """The places of a page, its links, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag in ("img", "script", "source", "iframe") and "src" in given:
            self.loaded.add(given["src"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.add(given["href"])


@pytest.mark.slow
@needs_sources
def test_links_lead_to_pages_and_places_that_are_there(site: Path) -> None:
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    assert len(pages) >= 40
    broken = []
    for path, page in pages.items():
        for link in page.links | page.loaded:
            target, place = urldefrag(unquote(link))
            if "://" in target or target.startswith(("mailto:", "/")):
                continue
            to = (path.parent / target).resolve() if target else path
            if not to.exists() or (place and to in pages and place not in pages[to].places):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert sorted(broken) == []


@needs_sources
def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert [one for one in Page(path.read_text("utf-8")).loaded if "://" in one] == [], path
    for path in site.rglob("*.css"):
        assert "@import" not in path.read_text("utf-8") and "url(http" not in path.read_text("utf-8")


@needs_sources
def test_public_names_and_their_methods_have_a_place_on_the_site(site: Path) -> None:
    places = {place for path in (site / "reference").glob("*.html") for place in Page(path.read_text("utf-8")).places}
    missing = [name for name in described() if name not in places]
    for name, thing in things_at(described()).items():
        if name.endswith(getattr(thing, "__name__", "")):  # and not another name of the same class
            missing += [f"{name}.{method}" for method in public_methods(thing) if f"{name}.{method}" not in places]
    assert sorted(missing) == []
