"""The client against the API's own handlers, and against every way a request can go wrong."""

from __future__ import annotations

import sys
from datetime import timedelta

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from dispatch import errors
from dispatch.api import CODES, PROBLEM_TYPE, SubmitRequest, answer_text, problem_of
from dispatch.client import (
    BadAnswer,
    Bearer,
    Client,
    ServerFailed,
    SigV4,
    Unanswered,
    Unreachable,
    WaitedTooLong,
    asks,
    over,
)
from dispatch.core.fold import fold
from dispatch.record.header import Spec
from dispatch.record.names import IntentKind, ObjectState, Outcome
from tests.client.network import Handlers, LosesReplies, Scripted, client
from tests.functions.world import START, World

SPEC = Spec(name="train", command=("true",))
REQUEST = SubmitRequest(spec=SPEC, cluster="main")
UNSENT = httpx.ConnectError("refused")
LOST = httpx.ReadTimeout("no answer")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def speaker(world: World) -> Client:
    return client(Handlers(world), after_sleep=lambda: tick(world))


def tick(world: World) -> None:
    world.work('{"cluster":"main"}')
    world.clock.forward(2)


def problem(error: errors.DispatchError, status: int = 503) -> httpx.Response:
    return httpx.Response(
        status, headers={"content-type": PROBLEM_TYPE}, text=answer_text(problem_of(error))
    )


# --- against the API --------------------------------------------------------------------------


def test_a_job_goes_from_submit_to_settled(speaker: Client) -> None:
    made = speaker.submit(REQUEST)
    assert made.created
    assert made.key == "key-0"
    status = speaker.wait(made.job_id)
    assert status.outcome is Outcome.SUCCEEDED
    assert status.settled_at is not None


def test_the_same_key_gives_the_same_job_back(speaker: Client) -> None:
    """F07."""
    first = speaker.submit(REQUEST, key="mine")
    again = speaker.submit(REQUEST, key="mine")
    assert (again.job_id, again.created) == (first.job_id, False)


def test_the_same_key_for_another_spec_is_a_conflict(speaker: Client) -> None:
    """F07."""
    speaker.submit(REQUEST, key="mine")
    other = SubmitRequest(spec=Spec(name="other", command=("true",)), cluster="main")
    with pytest.raises(errors.IdempotencyConflict):
        speaker.submit(other, key="mine")


def test_a_submit_whose_reply_is_lost_is_sent_again_with_its_key_and_makes_one_job(
    world: World,
) -> None:
    network = Handlers(world)
    made = client(LosesReplies(network, 2)).submit(REQUEST)
    assert len({one.headers["Idempotency-Key"] for one in network.seen}) == 1
    assert len(network.seen) == 3
    assert [one.job_id for one in client(network).jobs()] == [made.job_id]
    assert not made.created


def test_an_intent_whose_reply_is_lost_stands_once_in_the_record(world: World) -> None:
    job = world.job()
    receipt = client(LosesReplies(Handlers(world), 2)).intend(job, IntentKind.CANCEL)
    assert receipt.repeated
    assert world.store.read(job).revision == 1


def test_an_intent_is_answered_by_its_receipt(speaker: Client, world: World) -> None:
    job = world.job()
    receipt = speaker.intend(job, IntentKind.CANCEL, reason="wrong data")
    assert (receipt.effect, receipt.outcome, receipt.entry) == ("applied", Outcome.CANCELLED, 1)
    assert speaker.intend(job, IntentKind.CANCEL).effect == "already"


def test_a_malformed_intent_is_refused_before_it_is_sent(world: World) -> None:
    network = Handlers(world)
    with pytest.raises(errors.InvalidRequest, match="field 'id'"):
        client(network).intend("j", IntentKind.CANCEL, intent_id="two words")
    with pytest.raises(errors.InvalidRequest, match="reason"):
        client(network).intend("j", IntentKind.CANCEL, reason="x" * 5000)
    assert network.seen == []


def test_a_listing_yields_every_job_once_over_all_its_pages(world: World, speaker: Client) -> None:
    made = [world.job(f"k{number}") for number in range(7)]
    assert [one.job_id for one in speaker.jobs(page=3)] == made
    assert [one.job_id for one in speaker.jobs(page=3, settled=True)] == []
    summaries = [one.summary for one in speaker.jobs(page=3, summary=True, cluster="main")]
    assert len(summaries) == 7
    assert {one.name for one in summaries if one is not None} == {"train"}


def test_an_export_folds_to_the_same_job(world: World, speaker: Client) -> None:
    job = world.job()
    world.settle(job)
    view = speaker.record(job)
    stored = world.store.read(job)
    assert view.entries == stored.entries
    assert fold(view, START) == fold(stored, START)


def test_an_export_that_comes_in_pieces_is_put_together(
    world: World, speaker: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.job()
    world.settle(job)
    whole = speaker.export(job)
    monkeypatch.setattr("dispatch.api.MAX_ANSWER_BYTES", 2500)
    network = Handlers(world)
    assert client(network).export(job) == whole
    assert len(network.seen) > 1


def test_pages_that_lead_nowhere_are_an_error_and_no_endless_loop() -> None:
    stuck = {"jobs": [], "cursor": "here"}
    network = Scripted([httpx.Response(200, json=stuck) for _ in range(3)])
    with pytest.raises(BadAnswer):
        list(client(network).jobs())
    again = httpx.Response(200, text="x\n", headers={"Dispatch-Next": "0"})
    with pytest.raises(BadAnswer):
        client(Scripted([again])).export("j1")


def test_a_history_comes_in_pages_that_name_every_entry_once(
    world: World, speaker: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.job()
    world.settle(job)
    monkeypatch.setattr("dispatch.api.answers.MAX_ANSWER_BYTES", 1500)
    pages = list(speaker.history(job))
    numbers = [entry.number for page in pages for entry in page.entries]
    assert len(pages) > 1
    assert numbers == list(range(1, world.store.read(job).revision + 1))


def test_a_settled_job_is_tombstoned_and_then_gone(world: World, speaker: Client) -> None:
    job = world.job()
    with pytest.raises(errors.NotSettled):
        speaker.tombstone(job)
    world.settle(job)
    speaker.tombstone(job)
    with pytest.raises(errors.JobTombstoned):
        speaker.get(job)


def test_what_isn_t_there_is_not_found(speaker: Client) -> None:
    with pytest.raises(errors.JobNotFound):
        speaker.get("jnothere0000000000001")
    with pytest.raises(errors.CallerError):
        speaker.get("../jobs")


def test_the_caller_and_the_clusters_can_be_asked_for(speaker: Client) -> None:
    assert speaker.whoami().startswith("iam:")
    assert [one.name for one in speaker.clusters()] == ["main", "wide"]


def test_output_is_followed_until_the_job_is_over(speaker: Client) -> None:
    job = speaker.submit(REQUEST).job_id
    assert "".join(speaker.follow(job)).startswith("output of main/")


def test_a_wait_ends_where_it_is_told_to(world: World, speaker: Client) -> None:
    world.cluster().ends = ObjectState.FAILED
    job = speaker.submit(REQUEST).job_id
    status = speaker.wait(job, until=over)
    assert status.outcome is Outcome.FAILED
    assert asks(status)


def test_a_wait_with_a_limit_gives_up_and_the_job_goes_on(world: World) -> None:
    job = world.job()
    slept: list[float] = []
    waiting = client(Handlers(world), slept=slept)
    with pytest.raises(WaitedTooLong, match="still pending"):
        waiting.wait(job, timeout=timedelta(seconds=60))
    assert sum(slept) <= 60
    assert slept == sorted(slept)


# --- when it goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_error_of_the_api_comes_back_as_its_own_class_and_sentence(code: str) -> None:
    kind = CODES[code]
    said = kind("it went wrong", job="jsome0000001")
    with pytest.raises(errors.DispatchError) as caught:
        client(Scripted([problem(said, 400)]), tries=1).clusters()
    if not issubclass(kind, errors.Unknown):
        assert type(caught.value) is kind
        assert str(caught.value) == str(said)
        assert caught.value.job == "jsome0000001"


def test_a_refused_record_keeps_its_entry_field_and_rule() -> None:
    said = errors.InvalidRecord("1 has one", job="j1", entry=7, field="n", rule="second_canonical")
    with pytest.raises(errors.InvalidRecord) as caught:
        client(Scripted([problem(said, 409)])).get("j1")
    got = caught.value
    assert (got.entry, got.field, got.rule, got.reason) == (7, "n", "second_canonical", "1 has one")


def test_a_question_is_asked_again_until_it_is_answered(world: World) -> None:
    later = problem(errors.StoreUnavailable("throttled"))
    network = Scripted([UNSENT, LOST, later], Handlers(world))
    slept: list[float] = []
    assert client(network, slept=slept).clusters()
    assert len(slept) == 3


def test_no_more_tries_are_made_than_the_patience_allows() -> None:
    network = Scripted([UNSENT] * 9)
    with pytest.raises(Unreachable):
        client(network, tries=3).clusters()
    assert len(network.seen) == 3


def test_a_write_that_never_connected_certainly_did_nothing() -> None:
    with pytest.raises(Unreachable):
        client(Scripted([UNSENT] * 4)).submit(REQUEST)


@pytest.mark.parametrize(
    "script",
    [
        [LOST] * 4,
        [LOST, UNSENT, UNSENT, UNSENT],
        [LOST, *[problem(errors.StoreUnavailable("x")) for _ in range(3)]],
        [httpx.Response(504) for _ in range(4)],
        [httpx.Response(502), UNSENT, UNSENT, UNSENT],
    ],
)
def test_a_write_that_may_have_landed_is_unknown_whatever_the_last_try_said(
    script: list[httpx.Response | Exception],
) -> None:
    with pytest.raises(errors.Unknown):
        client(Scripted(script)).submit(REQUEST)


def test_a_question_without_an_answer_leaves_nothing_unknown() -> None:
    for script in ([LOST] * 4, [httpx.Response(504) for _ in range(4)]):
        with pytest.raises(errors.TryLater):
            client(Scripted(script)).get("j1")


def test_a_definite_no_isn_t_asked_again() -> None:
    network = Scripted([problem(errors.NotSettled("it isn't"), 409)])
    with pytest.raises(errors.NotSettled):
        client(network).tombstone("j1")
    assert len(network.seen) == 1


def test_the_server_s_wish_to_be_left_alone_for_a_while_is_respected(world: World) -> None:
    busy = problem(errors.StoreUnavailable("busy"))
    busy.headers["Retry-After"] = "7"
    slept: list[float] = []
    client(Scripted([busy], Handlers(world)), slept=slept).clusters()
    assert slept == [7.0]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (httpx.Response(200, text="<html>hello"), BadAnswer),
        (httpx.Response(200, json={"clusters": [{"name": 3}]}), BadAnswer),
        (httpx.Response(404, text="not here"), BadAnswer),
        (httpx.Response(301, headers={"location": "http://elsewhere"}), BadAnswer),
        (httpx.Response(500, text="oops"), ServerFailed),
        (httpx.Response(401, text=""), errors.Forbidden),
        (httpx.Response(403, json={"message": "Forbidden"}), errors.Forbidden),
        (httpx.Response(429, text=""), errors.TryLater),
    ],
)
def test_an_answer_that_isn_t_this_api_s_is_told_apart(
    reply: httpx.Response, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        client(Scripted([reply]), tries=1).clusters()


def test_an_answer_with_fields_of_a_later_build_is_read(world: World) -> None:
    later = httpx.Response(200, json={"actor": "iam:x", "since": "tomorrow"})
    assert client(Scripted([later])).whoami() == "iam:x"


def test_an_address_that_can_t_be_one_is_refused() -> None:
    for url in ("nonsense", "ftp://here", "http://[::"):
        with pytest.raises((errors.InvalidRequest, Unreachable)):
            Client(url).whoami()


def test_nobody_listening_is_told_as_such() -> None:
    with pytest.raises(Unreachable, match="no connection to http://127"):
        client(Scripted([UNSENT]), tries=1).whoami()


def test_the_words_of_an_unanswered_write_name_what_was_sent() -> None:
    with pytest.raises(Unanswered, match="no answer from http://127"):
        client(Scripted([LOST]), tries=1).submit(REQUEST)


# --- who the caller is ------------------------------------------------------------------------


def test_a_bearer_token_is_sent_and_asked_for_anew_each_time() -> None:
    tokens = iter(["one", "two"])
    network = Scripted([httpx.Response(200, json={"actor": "x"}) for _ in range(2)])
    speaker = client(network, auth=Bearer(lambda: next(tokens)))
    speaker.whoami()
    speaker.whoami()
    assert [one.headers["Authorization"] for one in network.seen] == ["Bearer one", "Bearer two"]


def test_a_request_is_signed_for_execute_api_with_its_body_and_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    made = httpx.Response(201, json={"job_id": "j1", "created": True, "generation": 0})
    network = Scripted([made])
    url = "https://abc.execute-api.eu-west-1.amazonaws.com/prod"
    client(network, auth=SigV4("eu-west-1"), url=url).submit(REQUEST)
    (sent,) = network.seen
    signature = sent.headers["Authorization"]
    assert "/eu-west-1/execute-api/aws4_request" in signature
    assert "idempotency-key" in signature
    assert sent.headers["X-Amz-Security-Token"] == "session"
    assert signature == signed_again(sent)
    sent.headers["Idempotency-Key"] = "another"
    assert signature != signed_again(sent)


def signed_again(sent: httpx.Request) -> str:
    """The signature that a server would compute of what it got."""
    names = ("content-type", "idempotency-key", "x-amz-date", "x-amz-security-token", "host")
    asked = AWSRequest(
        method=sent.method,
        url=str(sent.url),
        data=sent.content,
        headers={name: sent.headers[name] for name in names},
    )
    asked.context["timestamp"] = sent.headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials("testing", "testing", "session"), "execute-api", "eu-west-1")
    canonical = auth.canonical_request(asked)
    text = auth.string_to_sign(asked, canonical)
    scope = auth.scope(asked)
    shown = auth.signed_headers(auth.headers_to_sign(asked))
    return (
        f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={shown}, "
        f"Signature={auth.signature(text, asked)}"
    )


def test_where_nothing_can_sign_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(errors.BadConfiguration, match=r"pip install 'dispatch-record\[aws\]'"):
        SigV4("eu-west-1")


def test_without_credentials_nothing_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(errors.Forbidden, match="no AWS credentials"):
        SigV4("eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    with pytest.raises(errors.Forbidden, match="no AWS region"):
        SigV4()
