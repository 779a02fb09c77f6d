"""The bytes of everything ever written. Goldens are only added, never changed or removed.

`pytest tests/record/test_golden.py --rewrite` writes those that are missing, and no others. A
record that was written once must be read for ever; a golden that fails says that it wouldn't be.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import pytest

from dispatch.record.codec import canonical, decode_entry, decode_header, encode, envelope
from dispatch.record.control import CONTROL_SCHEMA, Control
from dispatch.record.fact import FACT_SCHEMA, Fact
from dispatch.record.header import HEADER_SCHEMA, Header
from dispatch.record.names import IntentKind
from dispatch.record.view import Envelope
from tests.record.samples import ENTRIES, HEADERS

FOLDER = Path(__file__).parent / "golden"
MANIFEST = FOLDER / "digests.txt"
SAMPLES: dict[str, Header | Any] = {**HEADERS, **ENTRIES}
SCHEMAS = {"header": HEADER_SCHEMA, "control": CONTROL_SCHEMA, "fact": FACT_SCHEMA}

CONTROL_FROZEN = "f1fd35d3f04422813930d88ba155e9a58349c37ce75b890137ff22614f239ddc"
"""The SHA-256 of the control schema; an older build must be able to cancel what it can't fold."""


def manifest() -> dict[str, str]:
    """The digests of all goldens, by name."""
    if not MANIFEST.exists():
        return {}
    lines = (line.split() for line in MANIFEST.read_text().splitlines())
    return {name: digest for digest, name in lines}


def stored(name: str) -> Envelope:
    body = (FOLDER / f"{name}.json").read_bytes().decode()
    return Envelope(SCHEMAS[name.partition("_")[0]], body)


def decoded(name: str) -> Any:
    if name.startswith("header"):
        return decode_header(stored(name))
    return decode_entry(stored(name))


@pytest.fixture(autouse=True, scope="module")
def missing_goldens(request: pytest.FixtureRequest) -> None:
    """With `--rewrite`, write the goldens that are missing; those that stand are left alone."""
    if not request.config.getoption("--rewrite"):
        return
    kept = manifest()
    for name, sample in SAMPLES.items():
        path = FOLDER / f"{name}.json"
        if name not in kept and not path.exists():
            path.write_bytes(encode(sample).encode())
            kept[name] = sha256(path.read_bytes()).hexdigest()
    lines = sorted(f"{digest}  {name}\n" for name, digest in kept.items())
    MANIFEST.write_text("".join(sorted(lines, key=lambda line: line.split()[1])))


def test_every_golden_has_the_bytes_it_was_written_with() -> None:
    there = {path.stem: sha256(path.read_bytes()).hexdigest() for path in FOLDER.glob("*.json")}
    assert there == manifest()
    assert there


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_sample_is_written_as_its_golden(name: str) -> None:
    assert encode(SAMPLES[name]).encode() == (FOLDER / f"{name}.json").read_bytes()
    assert envelope(SAMPLES[name]).schema == stored(name).schema


@pytest.mark.parametrize("name", sorted(manifest()))
def test_a_golden_is_still_read_and_is_canonical(name: str) -> None:
    entry = decoded(name)
    body = stored(name).body
    assert encode(entry) == body
    assert canonical(json.loads(body)) == body
    if name in SAMPLES:
        assert entry == SAMPLES[name]


def test_every_kind_of_entry_has_a_golden() -> None:
    kinds = {decoded(name).fact for name in manifest() if name.startswith("fact")}
    assert kinds == {get_args(kind.model_fields["fact"].annotation)[0] for kind in get_args(Fact)}
    intents = {decoded(name).kind for name in manifest() if name.startswith("control")}
    assert intents == set(IntentKind)
    assert any(name.startswith("header") for name in manifest())


def without_words(schema: Any) -> Any:
    """A JSON schema without titles and descriptions, which may be put better."""
    if isinstance(schema, dict):
        return {
            name: without_words(inner)
            for name, inner in schema.items()
            if name not in ("title", "description")
        }
    return [without_words(inner) for inner in schema] if isinstance(schema, list) else schema


def test_the_control_schema_is_frozen() -> None:
    """Facts change as the protocol does and get new names; this one never changes."""
    schema = canonical(without_words(Control.model_json_schema()))
    assert sha256(schema.encode()).hexdigest() == CONTROL_FROZEN
    assert CONTROL_SCHEMA == "dispatch.control.v1"
