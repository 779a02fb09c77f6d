"""The pages that follow from the code are what the code says now, and leave nothing out.

`pytest tests/docs/test_pages.py --rewrite` writes them anew.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from dispatch.core.project import State
from dispatch.errors import DispatchError
from dispatch.narrate.cures import CURES
from dispatch.narrate.pages import cause_page, error_page
from dispatch.record.names import Cause
from scripts import alarm_pages, error_pages, pages
from scripts.writing import DOCS


@pytest.fixture(scope="module")
def wanted() -> dict[str, str]:
    return pages.wanted()


def test_pages_are_as_they_would_be_written(wanted: dict[str, str], rewrite: bool) -> None:
    if rewrite:
        pages.main(wanted)
    for name, text in wanted.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: make pages"
    assert pages.left_over(wanted) == []


def test_every_cause_is_explained_and_something_helps() -> None:
    assert CURES.keys() == set(Cause)
    assert all(cure.meaning and cure.likely for cure in CURES.values())


def test_every_cause_has_a_page_of_its_own_and_stands_in_the_list(wanted: dict[str, str]) -> None:
    listed = wanted["reference/causes/index.md"]
    for cause in Cause:
        page = wanted[f"reference/causes/{cause}.md"]
        assert f"({cause}.md)" in listed
        for part in ("## What Dispatch does", "## See it", "## What helps"):
            assert part in page, (cause, part)
    assert len([name for name in wanted if name.startswith("reference/causes/")]) == len(Cause) + 1


def test_every_error_that_can_be_met_has_a_page_of_its_own(wanted: dict[str, str]) -> None:
    """Classes are found wherever they are defined, so a new one without a page fails here."""
    for package in ("dispatch", "embedded", "simulator"):
        found = importlib.import_module(package)
        for one in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not one.name.endswith("__main__"):
                importlib.import_module(one.name)
    codes = {
        kind.code for kind in _kinds_of(DispatchError) if not kind.__module__.startswith("tests")
    }
    explained = {kind.code for kind in error_pages.kinds()}
    assert codes <= explained, codes - explained
    assert {f"reference/errors/{code}.md" for code in explained} <= wanted.keys()
    assert all("## When" in wanted[f"reference/errors/{code}.md"] for code in explained)


def _kinds_of(kind: type[DispatchError]) -> Iterator[type[DispatchError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds_of(one)


def test_where_a_page_is_named_there_is_one(wanted: dict[str, str]) -> None:
    """`why`, the command's errors, the API's problems and the alarms name these pages."""
    named = [cause_page(cause) for cause in Cause]
    named += [error_page(kind.code) for kind in error_pages.kinds()]
    named += [f"docs/reference/alarms/{name}.md" for name in alarm_pages.alarms()]
    assert [name for name in named if name.removeprefix("docs/") not in wanted] == []


def test_an_alarm_says_what_it_means_where_to_look_and_what_helps(wanted: dict[str, str]) -> None:
    for name in alarm_pages.alarms():
        page = wanted[f"reference/alarms/{name}.md"]
        for part in ("**Goes off**", "## What it means", "## Look", "## What helps"):
            assert part in page, (name, part)


def test_the_pictures_show_every_state_of_a_job_and_fetch_nothing(wanted: dict[str, str]) -> None:
    assert all(f"| {state} |" in wanted["explanation/states.md"] for state in State)
    drawn = {name: text for name, text in wanted.items() if name.endswith(".svg")}
    assert all(f">{state}<" in drawn["images/states-job.svg"] for state in State)
    for name, text in drawn.items():
        picture = ElementTree.fromstring(text)
        assert picture[0].text, name
        assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), name
