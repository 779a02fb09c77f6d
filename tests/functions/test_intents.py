"""The API's routes, through the events that an HTTP API sends."""

import json

import pytest

from dispatch.record.control import CONTROL_SCHEMA
from dispatch.record.export import import_text
from dispatch.record.fact import FACT_SCHEMA
from dispatch.record.view import Envelope
from tests.functions.world import ADA, SPEC, World, fixture, http_event

NEWER = Envelope("dispatch.fact.v9", '{"fact":"teleported"}', "t-newer")


def test_a_submitted_job_is_answered_with_its_id_and_place(world: World) -> None:
    answer = world.submit()
    assert answer.status == 201
    assert answer.body["created"] is True
    assert answer.headers["location"] == f"/jobs/{answer.body['job_id']}"
    assert answer.headers["content-type"] == "application/json"


def test_what_the_request_leaves_out_comes_from_the_cluster(world: World) -> None:
    job = world.job()
    header = world.http("GET", f"/jobs/{job}/history").body["header"]["body"]
    assert header["plan"] == world.http("GET", "/clusters").body["clusters"][0]["plan"]
    assert header["start_retries"] == 2
    assert header["declarations"]["cluster"] == "main"


def test_what_the_request_says_goes_before_the_cluster(world: World) -> None:
    plan = {"default": {"action": "fail"}}
    job = world.job(plan=plan, start_retries=0, unmatched="manual")
    header = world.http("GET", f"/jobs/{job}/history").body["header"]["body"]
    assert header["plan"]["default"]["action"] == "fail"
    assert header["start_retries"] == 0
    assert header["unmatched"] == "manual"


def test_the_actor_is_the_authorizer_s_word_and_never_the_body_s(world: World) -> None:
    refused = world.http(
        "POST",
        "/jobs",
        {"cluster": "main", "spec": SPEC, "created_by": "mallory"},
        headers={"idempotency-key": "k"},
    )
    assert (refused.status, refused.body["field"]) == (400, "created_by")
    job = world.job()
    world.intend(job, "cancel")
    history = world.http("GET", f"/jobs/{job}/history").body
    assert history["header"]["by"] == ADA
    assert history["entries"][0]["by"] == ADA


def test_a_token_s_issuer_and_subject_are_the_actor(world: World) -> None:
    answer = world.request(fixture("http-jwt"))
    assert answer.body["actor"] == "oidc:https://login.example.com#ada-42"


@pytest.mark.parametrize("route", ["/whoami", "/jobs", "/clusters", "/jobs/jabcdefgh"])
def test_a_request_that_bears_no_identity_is_refused(world: World, route: str) -> None:
    answer = world.request(http_event("GET", route, like="http-nobody"))
    assert (answer.status, answer.body["code"]) == (403, "forbidden")


def test_nothing_is_written_for_nobody(world: World) -> None:
    event = http_event(
        "POST",
        "/jobs",
        {"cluster": "main", "spec": SPEC},
        headers={"idempotency-key": "k", "content-type": "application/json"},
        like="http-nobody",
    )
    assert world.request(event).status == 403
    assert world.store.list().items == ()


def test_an_unknown_cluster_is_named_with_those_that_are(world: World) -> None:
    answer = world.submit(cluster="moon")
    assert (answer.status, answer.body["code"]) == (422, "unknown_cluster")
    assert "main" in answer.body["detail"]


def test_what_the_cluster_would_refuse_is_refused_before_a_record_exists(world: World) -> None:
    world.cluster().refuses.append("field 'image': no containers here")
    answer = world.submit()
    assert (answer.status, answer.body["field"]) == (400, "spec")
    assert "no containers here" in answer.body["detail"]
    assert world.store.list().items == ()


def test_only_a_settled_job_can_be_superseded(world: World) -> None:
    first = world.job("first")
    answer = world.submit("second", supersedes=first)
    assert (answer.status, answer.body["code"], answer.body["job"]) == (409, "not_settled", first)
    world.settle(first)
    assert world.submit("second", supersedes=first).body["generation"] == 1


# --- intents ----------------------------------------------------------------------------------


def test_a_receipt_says_what_an_intent_did(world: World) -> None:
    job = world.job()
    receipt = world.intend(job, "cancel", reason="wrong data").body
    assert (receipt["effect"], receipt["outcome"], receipt["entry"]) == ("applied", "cancelled", 1)
    again = world.intend(job, "cancel").body
    assert (again["entry"], again["repeated"]) == (1, True)
    other = world.intend(job, "cancel", "i-2").body
    assert other["effect"] == "already"


def test_f40_a_cancel_after_success_is_told_that_it_succeeded(world: World) -> None:
    job = world.job()
    world.settle(job)
    receipt = world.intend(job, "cancel").body
    assert (receipt["effect"], receipt["outcome"]) == ("no_effect", "succeeded")


def test_f42_a_record_of_a_newer_build_still_takes_a_cancel(world: World) -> None:
    job = world.job()
    world.store.commit(job, 0, (NEWER,))
    receipt = world.intend(job, "cancel")
    assert receipt.status == 200
    assert "effect" not in receipt.body
    assert "entry 1" in receipt.body["refusal"]
    assert world.store.read(job).entries[1].schema == CONTROL_SCHEMA


def test_an_abandon_without_a_target_names_the_field_that_is_wrong(world: World) -> None:
    answer = world.intend(world.job(), "abandon")
    assert (answer.status, answer.body["code"]) == (400, "invalid_request")
    assert "target" in answer.body["detail"]


# --- reading ----------------------------------------------------------------------------------


def test_a_status_without_a_discovery_says_how_old_its_evidence_is(world: World) -> None:
    job = world.job()
    assert "evidence_age_s" not in world.http("GET", f"/jobs/{job}").body
    world.settle(job)
    world.clock.forward(100)
    status = world.http("GET", f"/jobs/{job}").body
    assert status["evidence_age_s"] >= 100
    assert "discovery_at" not in status
    assert status["stale_since"]["supervisor"] == "supervisor-test"
    assert status["created_by"] == ADA


def test_a_record_that_cannot_be_folded_is_told_with_entry_and_rule(world: World) -> None:
    job = world.job()
    world.store.commit(job, 0, (NEWER,))
    answer = world.http("GET", f"/jobs/{job}")
    assert answer.status == 409
    told = {name: answer.body[name] for name in ("code", "entry", "rule", "job")}
    assert told == {"code": "schema_refused", "entry": 1, "rule": "unknown_schema", "job": job}


def test_a_history_shows_entries_that_this_build_cannot_decode(world: World) -> None:
    job = world.job()
    world.store.commit(job, 0, (NEWER, Envelope(FACT_SCHEMA, "{not json", "t-x")))
    history = world.http("GET", f"/jobs/{job}/history").body
    first, second = history["entries"]
    assert (first["number"], first["decoded"], first["refusal"]["rule"]) == (
        1,
        False,
        "unknown_schema",
    )
    assert first["body"] == {"fact": "teleported"}
    assert (second["raw"], second["refusal"]["rule"]) == ("{not json", "malformed_json")
    assert history["folds"] is False
    assert history["refusal"]["entry"] == 1


def test_a_history_comes_in_pages_without_a_gap(world: World) -> None:
    job = world.job()
    for k in range(5):
        world.intend(job, "hold", f"i-{k}")
    seen, after = [], 0
    while True:
        page = world.http("GET", f"/jobs/{job}/history", query=f"after={after}&limit=2").body
        seen += [entry["number"] for entry in page["entries"]]
        assert page["header"]["number"] == 0
        if "next_after" not in page:
            break
        after = page["next_after"]
    assert seen == [1, 2, 3, 4, 5]


def test_an_export_folds_to_the_same_record_elsewhere(world: World) -> None:
    job = world.job()
    world.settle(job)
    answer = world.http("GET", f"/jobs/{job}/export")
    assert answer.headers["content-type"] == "application/jsonl"
    view, stored = import_text(answer.text), world.store.read(job)
    assert view.job_id == job
    assert (view.header.schema, view.header.body) == (stored.header.schema, stored.header.body)
    assert view.entries == stored.entries


def test_an_export_that_is_cut_goes_on_where_it_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.job()
    for k in range(6):
        world.intend(job, "hold", f"i-{k}")
    whole = world.http("GET", f"/jobs/{job}/export").text
    header = whole.split("\n")[0]
    monkeypatch.setattr("dispatch.api.MAX_ANSWER_BYTES", len(header) + 300)
    pieces, after = [], "0"
    while True:
        answer = world.http("GET", f"/jobs/{job}/export", query=f"after={after}")
        pieces.append(answer.text)
        if "dispatch-next" not in answer.headers:
            break
        after = answer.headers["dispatch-next"]
    assert len(pieces) > 1
    assert "".join(pieces) == whole


def test_a_listing_tells_names_and_states_when_asked(world: World) -> None:
    done, held = world.job("a"), world.job("b")
    world.intend(held, "hold")
    world.settle(done)
    lines = world.http("GET", "/jobs", query="summary=true").body["jobs"]
    assert [line["job_id"] for line in lines] == [done, held]
    assert lines[0]["summary"]["outcome"] == "succeeded"
    assert lines[1]["summary"]["state"] == "held"
    assert lines[1]["summary"]["name"] == "train"
    plain = world.http("GET", "/jobs").body["jobs"]
    assert "summary" not in plain[0]
    settled = world.http("GET", "/jobs", query="settled=true").body["jobs"]
    assert [line["job_id"] for line in settled] == [done]


def test_a_listing_goes_through_all_pages_in_order(world: World) -> None:
    jobs = []
    for k in range(5):
        jobs.append(world.job(f"k{k}"))
        world.clock.forward(1)
    seen: list[str] = []
    query = "limit=2"
    while True:
        page = world.http("GET", "/jobs", query=query).body
        seen += [line["job_id"] for line in page["jobs"]]
        if "cursor" not in page:
            break
        query = f"limit=2&cursor={page['cursor']}"
    assert seen == jobs


def test_logs_come_from_the_cluster_that_ran_the_job(world: World) -> None:
    job = world.job()
    none_yet = world.http("GET", f"/jobs/{job}/logs")
    assert (none_yet.status, none_yet.body["code"]) == (409, "nothing_ran")
    world.settle(job)
    whole = world.http("GET", f"/jobs/{job}/logs").body
    assert whole["text"] == f"output of main/{job}.1.1\n"
    assert whole["ended"] is True
    piece = world.http("GET", f"/jobs/{job}/logs", query="offset=7&limit=2").body
    assert (piece["text"], piece["next_offset"]) == ("of", 9)
    empty = world.http("GET", f"/jobs/{job}/logs", query="offset=1000").body
    assert (empty["text"], empty["ended"]) == ("", True)
    other = world.http("GET", f"/jobs/{job}/logs", query="ref=elsewhere")
    assert (other.status, other.body["field"]) == (400, "ref")


def test_logs_of_a_cluster_that_the_api_carries_no_client_of_are_unsupported(
    world: World,
) -> None:
    job = world.job()
    world.settle(job)

    def absent(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'kubernetes'")

    world.cluster().output = absent  # type: ignore[method-assign, assignment]
    answer = world.http("GET", f"/jobs/{job}/logs")
    assert (answer.status, answer.body["code"]) == (422, "unsupported")


def test_clusters_tell_what_they_can_do_and_how_they_fare(world: World) -> None:
    before = world.http("GET", "/clusters").body["clusters"]
    assert [one["name"] for one in before] == ["main", "wide"]
    assert "health" not in before[0]
    world.work('{"cluster":"main"}')
    after = world.http("GET", "/clusters").body["clusters"][0]
    assert after["health"]["supervisor"] == "supervisor-test"
    assert "gated_start" in after["declarations"]["capabilities"]


def test_only_what_is_settled_is_tombstoned_and_its_key_is_kept(world: World) -> None:
    job = world.job()
    refused = world.http("DELETE", f"/jobs/{job}")
    assert (refused.status, refused.body["code"]) == (409, "not_settled")
    world.settle(job)
    assert world.http("DELETE", f"/jobs/{job}").status == 204
    gone = world.http("GET", f"/jobs/{job}")
    assert (gone.status, gone.body["code"]) == (410, "job_tombstoned")
    assert world.http("DELETE", f"/jobs/{job}").status == 204


def test_a_job_that_never_was_is_not_found(world: World) -> None:
    for method, path in [
        ("GET", "/jobs/jaaaaaaaa"),
        ("GET", "/jobs/jaaaaaaaa/history"),
        ("GET", "/jobs/jaaaaaaaa/export"),
        ("DELETE", "/jobs/jaaaaaaaa"),
    ]:
        answer = world.http(method, path)
        assert (answer.status, answer.body["code"]) == (404, "job_not_found"), path


def test_the_document_and_its_page_are_served_to_anyone(world: World) -> None:
    document = world.request(http_event("GET", "/openapi.json", like="http-nobody"))
    assert json.loads(document.text)["openapi"].startswith("3.1")
    page = world.request(http_event("GET", "/", like="http-nobody"))
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
