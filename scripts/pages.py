"""Write the pages of the reference that follow from the code: causes, alarms, errors, pictures.

python -m scripts.pages      # writes them anew; a test compares
"""

from __future__ import annotations

from collections.abc import Mapping

from scripts import alarm_pages, cause_pages, error_pages
from scripts.pictures import pictures
from scripts.states import states_pages
from scripts.writing import DOCS

FOLDERS = ("reference/causes", "reference/alarms", "reference/errors")
"""Folders in which nothing stands but what is written here."""


def wanted() -> dict[str, str]:
    """Return the pages, by their path under docs."""
    return {
        **cause_pages.pages(),
        **alarm_pages.pages(),
        **error_pages.pages(),
        **states_pages(),
        **pictures(),
    }


def left_over(pages: Mapping[str, str]) -> list[str]:
    """Return what stands in the written folders and isn't written any more."""
    here = {str(path.relative_to(DOCS)) for folder in FOLDERS for path in (DOCS / folder).glob("*")}
    return sorted(here - pages.keys())


def main(pages: Mapping[str, str] | None = None) -> None:
    """Write the pages, and remove what is left of others."""
    pages = pages or wanted()
    for name in left_over(pages):
        (DOCS / name).unlink()
    for name, text in pages.items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"docs/{name}")


if __name__ == "__main__":
    main()
