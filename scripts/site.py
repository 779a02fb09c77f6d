"""What MkDocs is told beyond mkdocs.yml (its `hooks`): the navigation, and links to the code.

The pages are read in the repository too, where links lead out of `docs` to the code; on the site
such a link becomes the name of the file. The navigation follows from the folders.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

SECTIONS = {
    "tutorials": "Learn",
    "how-to": "Do",
    "reference": "Look up",
    "explanation": "Understand",
    "incidents": "Incidents",
    "adr": "Decisions",
}
"""The parts of the documentation, in their order, by folder."""

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\[]+|`[^`]+`)\]\((?P<to>\.\./[^)\s#]+)(?:#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Return the configuration, with a navigation that holds every page."""
    docs = Path(config["docs_dir"])
    nav: list[Any] = ["index.md", "glossary.md"]
    for folder, title in SECTIONS.items():
        nav.append({title: _entries(docs, docs / folder)})
    config["nav"] = nav
    return config


def _entries(docs: Path, folder: Path) -> list[Any]:
    """Return a folder's pages, its index first, and then the folders in it by their own names."""
    pages = sorted(folder.glob("*.md"), key=lambda path: (path.stem != "index", path))
    found: list[Any] = [path.relative_to(docs).as_posix() for path in pages]
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        if any(inner.glob("*.md")):
            found.append({inner.name.capitalize(): _entries(docs, inner)})
    return found


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page whose links stay within the documentation."""
    here = posixpath.dirname(page.file.src_uri)

    def within(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, found["to"]))
        return found["text"] if target.startswith("../") else found[0]

    return _LINK.sub(within, markdown)
