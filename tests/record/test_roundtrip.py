"""Decoding undoes encoding, and whatever else is offered is refused (Hypothesis)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.core.fold import fold
from dispatch.errors import RecordRefused
from dispatch.record import fact as facts
from dispatch.record.codec import (
    canonical,
    decode_entry,
    decode_header,
    encode,
    envelope,
    spec_digest,
)
from dispatch.record.control import Control
from dispatch.record.evidence import Sighting
from dispatch.record.header import (
    Adjust,
    Declarations,
    Header,
    Lineage,
    LocalSpec,
    Plan,
    Rule,
    SlurmSpec,
    Spec,
)
from dispatch.record.names import (
    Action,
    Capability,
    Cause,
    IntentKind,
    ObjectState,
    Outcome,
    ReplyResult,
    UnmatchedPolicy,
)
from dispatch.record.view import Envelope, View
from tests.record.samples import AT, ENTRIES, HEADERS, header

MANY = settings(max_examples=80, deadline=None)

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=12)
refs = st.text(min_size=1, max_size=30)
times = st.datetimes(datetime(1970, 1, 1), datetime(9000, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
ordinals = st.integers(1, 999_999)
counts = st.integers(0, 999_999)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
ids = st.text("abcXYZ019._:-", min_size=1, max_size=30)
causes = st.sampled_from(Cause)
said = {"at": times, "by": names}
plain = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
triggers = st.one_of(
    st.just("initial"),
    st.builds("rec:{}.{}{}".format, ordinals, ordinals, st.sampled_from(("", ":f", ":h"))),
    st.builds("pend:{}.{}".format, ordinals, ordinals),
    st.builds("start/{}".format, ordinals),
    st.builds("ctl:{}".format, ids),
)
adjusts = st.builds(
    Adjust,
    memory_mb_per_node=st.none() | st.integers(1, 10**9),
    avoid_nodes=st.lists(names, max_size=3).map(tuple),
)


@st.composite
def sightings(draw: st.DrawFn) -> Sighting:
    state = draw(st.sampled_from(ObjectState))
    cause = draw(causes) if state in (ObjectState.FAILED, ObjectState.GONE) else None
    if state not in (ObjectState.FAILED, ObjectState.GONE, ObjectState.SUCCEEDED):
        cause = draw(st.none() | causes)
    return Sighting(
        ref=draw(refs),
        n=draw(ordinals),
        a=draw(ordinals),
        spec_digest=draw(digests),
        generation=draw(counts),
        state=state,
        cause=cause,
        restarts=draw(counts),
        held=draw(st.booleans()),
        holder=draw(st.none() | names),
        exit_code=draw(st.none() | st.integers(-(2**31), 2**32 - 1)),
        signal=draw(st.none() | st.integers(0, 255)),
        nodes=tuple(draw(st.lists(names, max_size=3))),
        started_at=draw(st.none() | times),
        ended_at=draw(st.none() | times),
        lost_at=draw(st.none() | times),
        reason=draw(st.none() | texts),
        source=draw(names),
        digest=draw(st.none() | st.text(max_size=64)),
    )


@st.composite
def replies(draw: st.DrawFn) -> facts.Replied:
    result = draw(st.sampled_from(ReplyResult))
    return facts.Replied(
        at=draw(times),
        by=draw(names),
        n=draw(ordinals),
        a=draw(ordinals),
        result=result,
        ref=draw(refs) if result is ReplyResult.STARTED else None,
        cause=draw(causes) if result is ReplyResult.REFUSED else None,
        detail=draw(st.none() | texts),
    )


@st.composite
def outcomes(draw: st.DrawFn) -> facts.OutcomeFact:
    state = draw(st.sampled_from(Outcome))
    cause = draw(causes) if state is Outcome.FAILED else None
    return facts.OutcomeFact(at=draw(times), by=draw(names), state=state, cause=cause)


@st.composite
def controls(draw: st.DrawFn) -> Control:
    kind = draw(st.sampled_from(IntentKind))
    return Control(
        kind=kind,
        id=draw(ids),
        by=draw(names),
        at=draw(times),
        reason=draw(st.none() | texts),
        target=draw(refs) if kind is IntentKind.ABANDON else None,
    )


calls = {**said, "ref": refs, "run": ordinals, "restarts": counts, "deadline": times}
entries: st.SearchStrategy[Any] = st.one_of(
    controls(),
    st.builds(
        facts.Authorized,
        **said,
        n=ordinals,
        trigger=triggers,
        taken_at=times,
        cause=st.none() | causes,
        adjust=st.none() | adjusts,
    ),
    st.builds(facts.Attempt, **said, n=ordinals, a=ordinals, deadline=times),
    replies(),
    st.builds(
        facts.Observed,
        **said,
        taken_at=times,
        seen_at=times,
        objects=st.lists(sightings(), min_size=1, max_size=3).map(tuple),
    ),
    st.builds(facts.Unmatched, **said, n=ordinals, a=ordinals, taken_at=times),
    st.builds(facts.Canonical, **said, n=ordinals, ref=refs),
    st.builds(facts.Retired, **said, ref=refs, reason=texts),
    st.builds(facts.Expired, **said, ref=refs, cause=causes, trigger=triggers),
    st.builds(facts.Released, **said, ref=refs),
    st.builds(facts.HoldCall, **calls),
    st.builds(facts.RequeueCall, **calls, trigger=triggers, cause=st.none() | causes),
    st.builds(facts.RecoveryHold, **said, cause=causes, trigger=triggers, detail=st.none() | texts),
    outcomes(),
    st.builds(facts.Escalated, **said, key=refs, code=names, detail=texts),
    st.builds(facts.Settled, **said, taken_at=times),
)

rules = st.builds(
    Rule,
    action=st.sampled_from(Action),
    limit=st.integers(0, 10_000),
    after_limit=st.sampled_from((Action.HOLD, Action.FAIL)),
    backoff_s=st.integers(0, 10**6),
    in_place=st.booleans(),
    memory_factor=st.none() | st.floats(1.0, 16.0),
    avoid_node=st.booleans(),
)
plans = st.builds(
    Plan,
    default=rules,
    causes=st.dictionaries(causes, rules, max_size=3),
    pending_limit_s=st.none() | st.integers(0, 10**6),
    start_backoff_s=st.integers(0, 10**6),
)
specs = st.builds(
    Spec,
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    command=st.lists(plain, min_size=1, max_size=3).map(tuple),
    env=st.dictionaries(st.from_regex(r"[A-C_][A-Z0-9_]{0,5}", fullmatch=True), plain, max_size=3),
    nodes=st.integers(1, 10_000),
    memory_mb_per_node=st.none() | st.integers(1, 10**6),
    time_limit_s=st.none() | st.integers(1, 10**6),
    labels=st.dictionaries(names, texts, max_size=3),
    slurm=st.none() | st.builds(SlurmSpec, nice=st.none() | st.integers(0, 9)),
    local=st.none() | st.builds(LocalSpec),
)
declarations = st.builds(
    Declarations,
    adapter=names,
    cluster=names,
    capabilities=st.lists(st.sampled_from(Capability)).map(tuple),
    node_loss_window_s=st.integers(0, 10**6),
    call_bound_s=st.integers(200, 10**6),
    landing_bound_s=st.integers(0, 99),
    request_timeout_s=st.integers(1, 100),
    retention_s=st.integers(0, 10**6),
    save_window_s=st.integers(0, 10**6),
    clock_skew_s=st.integers(0, 10**6),
    lookup_lag_s=st.integers(0, 10**6),
)


@st.composite
def headers(draw: st.DrawFn) -> Header:
    generation = draw(st.integers(0, 5))
    lineage = Lineage(supersedes="jolderjob" if generation else None, generation=generation)
    return header(
        draw(specs),
        plan=draw(plans),
        declarations=draw(declarations),
        start_retries=draw(st.integers(0, 100)),
        unmatched=draw(st.sampled_from(UnmatchedPolicy)),
        created_by=draw(names),
        created_at=draw(times),
        lineage=lineage,
    )


@MANY
@given(entries)
def test_decoding_an_entry_undoes_encoding_it(entry: Any) -> None:
    stored = envelope(entry)
    assert decode_entry(stored) == entry
    assert encode(decode_entry(stored)) == stored.body


@MANY
@given(headers())
def test_decoding_a_header_undoes_encoding_it(written: Header) -> None:
    stored = envelope(written)
    assert decode_header(stored) == written
    assert encode(decode_header(stored)) == stored.body
    assert spec_digest(written.spec) == written.spec_digest


@MANY
@given(entries)
def test_a_body_is_canonical_json_without_nulls(entry: Any) -> None:
    body = encode(entry)
    plain_data = json.loads(body)
    assert canonical(plain_data) == body
    assert "null" not in json.dumps(list(_values(plain_data)))


def _values(value: Any) -> Any:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    elif value is None:
        yield value


SCHEMAS = st.sampled_from(("dispatch.fact.v1", "dispatch.control.v1"))


def read(stored: Envelope) -> Any:
    """What an entry says, or why it is refused; any other exception is a fault."""
    try:
        return decode_entry(stored, job="jabcdefgh", entry=1)
    except RecordRefused as refusal:
        return refusal


def folded(view: View) -> Any:
    """What a record folds to, or why it is refused."""
    try:
        return fold(view, AT)
    except RecordRefused as refusal:
        return refusal


def refused_or_canonical(stored: Envelope) -> None:
    """What can be read at all has one canonical body, and reads the same from it."""
    entry = read(stored)
    if isinstance(entry, RecordRefused):
        assert entry.rule
        assert (entry.job, entry.entry) == ("jabcdefgh", 1)
        return
    again = decode_entry(Envelope(stored.schema, encode(entry)))
    assert again == entry
    assert encode(again) == encode(entry)


@MANY
@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")), SCHEMAS)
def test_random_text_is_refused(body: str, schema: str) -> None:
    refused_or_canonical(Envelope(schema, body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@MANY
@given(st.sampled_from(sorted(ENTRIES)), st.data())
def test_a_valid_body_with_one_value_changed_is_refused_or_another_canonical_body(
    name: str, data: st.DataObject
) -> None:
    stored = envelope(ENTRIES[name])
    body = json.loads(stored.body)
    field = data.draw(st.sampled_from(sorted(body)) | names)
    body[field] = data.draw(JSON)
    refused_or_canonical(Envelope(stored.schema, json.dumps(body)))


@MANY
@given(st.sampled_from(sorted(ENTRIES)), st.data())
def test_a_valid_body_with_characters_changed_is_refused_or_another_canonical_body(
    name: str, data: st.DataObject
) -> None:
    stored = envelope(ENTRIES[name])
    body = stored.body
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        cut = data.draw(st.integers(0, 3))
        body = body[:at] + data.draw(st.text(max_size=3)) + body[at + cut :]
    refused_or_canonical(Envelope(stored.schema, body))


@MANY
@given(st.sampled_from(sorted(ENTRIES)), st.data())
def test_a_cut_body_is_refused(name: str, data: st.DataObject) -> None:
    stored = envelope(ENTRIES[name])
    body = stored.body[: data.draw(st.integers(0, len(stored.body) - 1))]
    refusal = read(Envelope(stored.schema, body))
    assert isinstance(refusal, RecordRefused)
    assert refusal.rule == "malformed_json"


@MANY
@given(st.lists(st.builds(Envelope, SCHEMAS, st.text(max_size=30)), min_size=1, max_size=3))
def test_random_bytes_never_fold_into_something_plausible(stored: list[Envelope]) -> None:
    view = View("jabcdefgh", envelope(HEADERS["header_least"]), tuple(stored))
    refusal = folded(view)
    assert isinstance(refusal, RecordRefused)
    assert refusal.entry == 1


@MANY
@given(st.lists(entries, max_size=6))
def test_random_entries_fold_or_are_refused_by_name(written: list[Any]) -> None:
    """Whatever times and numbers they hold: never another exception."""
    stored = tuple(envelope(one) for one in written)
    met = folded(View("jabcdefgh", envelope(HEADERS["header_least"]), stored))
    if isinstance(met, RecordRefused):
        assert met.rule
        assert met.entry is not None
    else:
        assert met.revision == len(written)
