"""The pages that explain the record lead to functions and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs/explanation/the-record.md",
    ROOT / "docs/explanation/steps.md",
    ROOT / "docs/explanation/protocol.md",
    ROOT / "docs/glossary.md",
]
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)\)")


def links(page: Path) -> list[tuple[str, Path]]:
    return [(text, page.parent / target) for text, target in LINK.findall(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [str(target) for _, target in links(page) if not target.exists()] == []


@pytest.mark.parametrize("page", PAGES[:3], ids=lambda page: page.stem)
def test_every_function_and_test_that_a_page_names_is_in_that_file(page: Path) -> None:
    named = [(text.strip("`"), at) for text, at in links(page) if text.startswith("`")]
    lost = [
        name
        for name, at in named
        if not re.search(
            rf"(def|class) {name.split('.')[-1]}\b|^{name} ?[:=]", at.read_text(), re.MULTILINE
        )
    ]
    assert named
    assert lost == []


def test_every_row_of_the_record_page_names_a_keeper_and_a_test() -> None:
    rows = [
        line
        for line in PAGES[0].read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| rule")
    ]
    assert len(rows) > 70
    for row in rows:
        rule, kept, shown = row.strip("| ").split(" | ")
        assert "shared/dispatch/" in kept, rule
        assert "tests/" in shown, rule


def test_the_protocol_page_has_the_sections_that_the_code_cites() -> None:
    page = (ROOT / "docs/explanation/protocol.md").read_text()
    sections = {int(n) for n in re.findall(r"^## (\d+)\. ", page, re.MULTILINE)}
    cited = {
        int(n)
        for path in (ROOT / "shared").rglob("*.py")
        for n in re.findall(r"protocol §(\d+)", path.read_text())
    }
    assert sections == set(range(1, 12))
    assert cited <= sections


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\| \*\*([^*]+)\*\*", PAGES[3].read_text(), re.MULTILINE)
    assert words == sorted(words, key=str.lower)
