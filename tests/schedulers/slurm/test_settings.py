"""What may be configured, tokens and tags."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dispatch.errors import SchedulerUnavailable
from dispatch.schedulers.scheduler import Tag
from dispatch.schedulers.slurm.settings import Bounds, SigningKey, SiteToken
from dispatch.schedulers.slurm.tags import (
    MAX_BYTES,
    Identity,
    Mark,
    identified,
    job_name,
    marked,
    named_job,
    written,
)
from dispatch.schedulers.slurm.tokens import MintedTokens, SiteTokens, expiry, minted
from tests.schedulers.slurm.conftest import Clock, settings

JOBS = st.from_regex(r"\A[a-z][a-z0-9]{7,40}\Z")
MARKS = st.builds(
    Mark,
    st.builds(
        Tag,
        job=JOBS,
        n=st.integers(1, 999_999),
        a=st.integers(1, 999_999),
        spec_digest=st.from_regex(r"\A[0-9a-f]{64}\Z"),
        generation=st.integers(0, 999_999),
    ),
    st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
    st.integers(0, 2**46),
    st.booleans(),
)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"url": "ftp://slurm"}, "url"),
        ({"url": "http://slurm.example.org:6820"}, "url_plain"),
        ({"default_queue": "nope"}, "default_queue"),
        ({"in_place": True}, "in_place"),
        ({"run_as": {"ann": "ann"}, "sign_in": SiteToken(secret="file:/t")}, "run_as"),
        ({"environment": {}}, "environment"),
        ({"name": "two words"}, "name"),
        ({"user": "Not A User"}, "user"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_settings_that_dont_fit_are_refused_by_name(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**changed)
    first = caught.value.errors()[0]
    assert field in (first["type"], *map(str, first["loc"]))


def test_plain_http_is_for_this_machine_or_said_aloud() -> None:
    assert settings(url="http://127.0.0.1:6820").url
    assert settings(url="http://slurm.example.org:6820", plain_http=True).url
    assert settings(url="https://slurm.example.org").url


def test_a_minted_token_bounds_the_call_and_a_sites_token_does_not() -> None:
    key = settings(sign_in=SigningKey(secret="file:/k", lifetime_s=30))
    assert key.landing_bound_s == 35
    site = settings(sign_in=SiteToken(secret="file:/t"))
    assert site.landing_bound_s > key.landing_bound_s
    for cluster in (key, site):
        assert cluster.call_bound_s > cluster.bounds.request_timeout_s + cluster.landing_bound_s
    assert settings(bounds=Bounds(call_bound_s=500)).call_bound_s == 500


def test_the_time_out_outlasts_slurmrestds_own_wait_for_slurmctld() -> None:
    assert settings().bounds.request_timeout_s > 20


def test_a_token_ends_when_it_was_told_to() -> None:
    clock = Clock()
    token = MintedTokens(lambda: b"key", clock).token("ann", 30)
    assert expiry(token) == clock.epoch() + 30
    assert token == minted(b"key", user="ann", issued=clock.epoch(), expires=clock.epoch() + 30)


def test_a_minted_token_is_what_another_maker_of_tokens_makes() -> None:
    # From RFC 7515's construction, by hand: header.claims signed with HMAC-SHA256.
    token = minted(b"secret", user="ann", issued=1, expires=2)
    assert token == (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpYXQiOjEsImV4cCI6Miwic3VuIjoiYW5uIn0."
        + token.rpartition(".")[2]
    )
    assert len(token.rpartition(".")[2]) == 43


def test_a_sites_token_is_read_again_before_it_ends_and_not_at_every_call() -> None:
    clock = Clock()
    reads: list[int] = []

    def secret() -> str:
        reads.append(1)
        lifetime = 3600 * len(reads)
        return minted(b"k", user="ann", issued=clock.epoch(), expires=clock.epoch() + lifetime)

    tokens = SiteTokens(secret, clock)
    first = tokens.token("ann", 1)
    assert tokens.token("ann", 1) == first
    clock.pass_s(3590)
    assert tokens.token("ann", 1) != first
    assert len(reads) == 2
    tokens.forget()
    tokens.token("ann", 1)
    assert len(reads) == 3


def test_a_sites_token_that_has_ended_is_said_and_never_sent() -> None:
    clock = Clock()
    token = minted(b"k", user="ann", issued=0, expires=clock.epoch() - 1)
    with pytest.raises(SchedulerUnavailable, match="expired"):
        SiteTokens(lambda: token, clock).token("ann", 1)


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c", "a.W10.c", "..", "a.eyJleHAiOiJ4In0.c"])
def test_a_token_without_an_end_is_used_as_it_is(token: str) -> None:
    assert expiry(token) is None
    assert SiteTokens(lambda: token, Clock()).token("ann", 1) == token


@given(MARKS)
def test_a_mark_is_read_back_whole_and_fits_the_comment(mark: Mark) -> None:
    text = written(mark)
    assert marked(text) == mark
    assert marked(text, "") == marked("", text)
    read = marked(text)
    assert read is not None
    assert read.stopping == mark.stopping
    assert len(text.encode()) <= MAX_BYTES


@given(MARKS, st.integers(0, 300), st.characters())
def test_a_mark_that_was_touched_is_another_or_none(mark: Mark, at: int, sign: str) -> None:
    text = written(mark)
    at %= len(text)
    touched = text[:at] + sign + text[at + 1 :]
    read = marked(touched)
    assert read is None or touched == text or read != mark or read.stopping != mark.stopping


@given(st.text(max_size=200))
def test_no_text_of_others_is_taken_for_a_mark(text: str) -> None:
    assert marked(text) is None


@given(MARKS, st.integers(1, 2**31))
def test_a_ref_names_what_it_was_made_of(mark: Mark, job_id: int) -> None:
    identity = Identity(mark.cluster, job_id, mark.at_ms)
    assert identified(str(identity)) == identity


@pytest.mark.parametrize("ref", ["", "a:1", "a:1@", "a:x@1", "a:1@1 ", "pod/uid", "a:b:1@1\n"])
def test_a_ref_of_others_names_nothing(ref: str) -> None:
    assert identified(ref) is None


@given(JOBS)
def test_a_jobs_name_is_read_back(job: str) -> None:
    assert named_job(job_name(job)) == job


def test_f18_identity_does_not_depend_on_a_zone_or_a_change_of_the_clock() -> None:
    for at in (datetime(2026, 11, 1, 5, 59, tzinfo=UTC), datetime(2026, 11, 1, 6, 1, tzinfo=UTC)):
        mark = Mark(Tag("j00000001", 1, 1, "0" * 64, 0), "c", int(at.timestamp() * 1000))
        later = Mark(mark.tag, "c", int((at + timedelta(hours=1)).timestamp() * 1000))
        assert mark.at_ms + 3_600_000 == later.at_ms
