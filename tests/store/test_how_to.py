"""The snippets of the page on record stores run as they stand."""

import re
from pathlib import Path

import pytest

from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.records import Store
from tests.architecture.sources import ROOT
from tests.conformance.records.moto_table import moto_client

PAGE = ROOT / "docs" / "how-to" / "open-a-record-store.md"


def test_the_snippets_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    opened = []
    with moto_client():
        for snippet in snippets:
            exec(compile(snippet, str(PAGE), "exec"), names)
            opened.append(type(names.get("records")).__name__)
    assert opened == [
        "NoneType",
        "MemoryRecords",
        "SqliteRecords",
        "DynamoRecords",
        "DynamoRecords",
    ]
    store: object = names["records"]
    assert isinstance(store, DynamoRecords)
    kept: Store = store
    assert kept is store
    assert (tmp_path / "records.sqlite").is_file()
    assert "j0123456789: no such record" in capsys.readouterr().out


def test_every_link_of_the_page_leads_to_a_file() -> None:
    for page in (PAGE, ROOT / "docs" / "adr" / "0005-three-stores-one-contract.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
