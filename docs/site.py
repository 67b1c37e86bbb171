"""Hooks of mkdocs: pages of the repository that lie outside docs/, files that pages link to, and the commands' help."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
TABLES = sorted(f"benchmarks/tables/{page.name}" for page in (ROOT / "benchmarks" / "tables").glob("*.md"))
BESIDE = (
    "benchmarks/README.md",
    "benchmarks/datasets/README.md",
    *TABLES,
    "SECURITY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
OUTSIDE = {"README.md": "index.md", **{name: name for name in BESIDE}}  # of the repository -> of the site
COMMANDS = "reference/commands.md"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")


def place_of(path: str) -> str:
    """Return the place on the site of a file of the repository, by its path from the root."""
    return OUTSIDE.get(path) or path.removeprefix("docs/")


def linked(text: str, source: str) -> list[tuple[str, str]]:
    """Return the links of a page to files: as they stand, and as paths from the repository's root."""
    folder = posixpath.dirname(source)
    return [(link, posixpath.normpath(posixpath.join(folder, link))) for link in LINK.findall(text)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/, the files that pages link to, and a page with the commands."""
    from mkdocs.structure.files import File

    for source, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, COMMANDS, content=commands_page()))
    sources = {place: source for source, place in OUTSIDE.items()}
    for page in files.documentation_pages():
        if page.src_uri == COMMANDS:
            continue
        for _, path in linked(page.content_string, sources.get(page.src_uri, f"docs/{page.src_uri}")):
            if (ROOT / path).is_file() and files.get_file_from_path(place_of(path)) is None:
                files.append(File.generated(config, place_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page, which lead through the repository, to the places on the site."""
    sources = {place: source for source, place in OUTSIDE.items()}
    place = page.file.src_uri
    if place == COMMANDS:
        return markdown
    moved = dict(linked(markdown, sources.get(place, f"docs/{place}")))
    start = posixpath.dirname(place) or "."
    return LINK.sub(lambda found: posixpath.relpath(place_of(moved[found[0]]), start), markdown)


def commands_page() -> str:
    """Return the help of every command, as a page."""
    import typer

    from tinymem.cli.main import app

    group = typer.main.get_command(app)
    with typer.Context(group, info_name="tinymem", terminal_width=100) as above:
        names = group.list_commands(above)  # type: ignore[attr-defined]
        parts = ["# Commands\n\nThe help of each command, as `tinymem COMMAND --help` prints it.\n"]
        for name in names:
            command = group.get_command(above, name)  # type: ignore[attr-defined]
            with typer.Context(command, info_name=name, parent=above, terminal_width=100) as context:
                parts.append(f"## tinymem {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)
