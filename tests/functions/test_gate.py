"""The rules at the door: every route asks them, and every refusal is told with its actor."""

import json
import logging
from typing import Any

import pytest

from dispatch.record.header import HEADER_SCHEMA
from dispatch.record.view import Envelope, View
from dispatch.store.memory import MemoryRecords
from tests.functions.world import ADA, CLUSTERS, SPEC, Reply, World, http_event

BO = "arn:aws:iam::111122223333:user/bo"
CY = "arn:aws:sts::111122223333:assumed-role/Ops/cy"
EVE = "arn:aws:iam::111122223333:user/eve"
ACCESS = {
    "teams": {
        "science": [{"principal": ADA}, {"principal": f"iam:{BO}"}],
        "ops": [{"role": "arn:aws:iam::111122223333:role/Ops"}],
    },
    "rules": [
        {
            "who": ["science"],
            "submit": [{"clusters": ["main"], "queues": ["gpu"]}, {"clusters": ["wide"]}],
            "intents": {"*": "own", "cancel": "team"},
            "read": "team",
            "tombstone": "own",
        },
        {"who": ["ops"], "admin": True},
    ],
}
GPU = {**SPEC, "queue": "gpu"}


def ruled(access: dict[str, Any] = ACCESS) -> str:
    return json.dumps({**json.loads(CLUSTERS), "access": access})


@pytest.fixture
def world() -> World:
    return World(clusters=ruled())


def ask(
    world: World, arn: str, method: str, path: str, body: Any = None, *, query: str = ""
) -> Reply:
    event = http_event(method, path, body, query=query, headers={"idempotency-key": "k-" + arn})
    event["requestContext"]["authorizer"]["iam"]["userArn"] = arn
    return world.request(event)


def submit(world: World, arn: str, cluster: str = "main", **spec: Any) -> Reply:
    return ask(world, arn, "POST", "/jobs", {"cluster": cluster, "spec": {**GPU, **spec}})


def adas(world: World) -> str:
    answer = world.submit("adas", spec=GPU)
    assert answer.status == 201, answer.text
    job: str = answer.body["job_id"]
    return job


READS = ("", "/history", "/why", "/timeline", "/export", "/logs")


@pytest.mark.parametrize("part", READS)
def test_every_way_to_read_a_job_asks_the_rules(world: World, part: str) -> None:
    job = adas(world)
    world.settle(job)
    path = f"/jobs/{job}{part}"
    assert ask(world, BO, "GET", path).status == 200
    assert ask(world, CY, "GET", path).status == 200
    refused = ask(world, EVE, "GET", path)
    assert (refused.status, refused.body["code"], refused.body["job"]) == (403, "forbidden", job)


def test_a_submission_is_held_to_cluster_queue_and_the_cluster_s_own_default(world: World) -> None:
    assert submit(world, BO).status == 201
    refused = submit(world, BO, queue="cpu")
    assert (refused.status, refused.body["code"]) == (403, "forbidden")
    assert "queue cpu" in refused.body["detail"]
    assert submit(world, EVE).status == 403
    assert ask(world, CY, "POST", "/jobs", {"cluster": "main", "spec": SPEC}).status == 201


def test_a_refused_submission_leaves_no_record_and_learns_of_none(world: World) -> None:
    job = adas(world)
    before = [one.job_id for one in world.store.list().items]
    event = http_event(
        "POST",
        "/jobs",
        {"cluster": "main", "spec": GPU},
        headers={"idempotency-key": "adas"},
    )
    event["requestContext"]["authorizer"]["iam"]["userArn"] = EVE
    refused = world.request(event)
    assert refused.status == 403
    assert job not in refused.text
    assert [one.job_id for one in world.store.list().items] == before


def test_intents_are_held_to_whose_the_job_is(world: World) -> None:
    job = adas(world)
    path = f"/jobs/{job}/intents"
    assert ask(world, BO, "POST", path, {"kind": "hold", "id": "1"}).status == 403
    assert ask(world, EVE, "POST", path, {"kind": "cancel", "id": "2"}).status == 403
    assert world.store.read(job).revision == 0
    assert ask(world, BO, "POST", path, {"kind": "cancel", "id": "3"}).status == 200
    assert ask(world, CY, "POST", path, {"kind": "hold", "id": "4"}).status == 200
    assert world.intend(job, "requeue", "5").status == 200


def test_f42_a_header_of_a_newer_build_still_tells_whose_the_job_is(world: World) -> None:
    job = adas(world)
    assert isinstance(world.store, MemoryRecords)
    header = world.store.read(job).header
    newer = header.body.replace('"created_by"', '"color":"blue","created_by"')
    world.store._records[job].view = View(job, Envelope(HEADER_SCHEMA, newer, header.token))
    path = f"/jobs/{job}/intents"
    assert ask(world, EVE, "POST", path, {"kind": "cancel", "id": "1"}).status == 403
    assert ask(world, BO, "POST", path, {"kind": "cancel", "id": "2"}).status == 200


def test_a_job_that_is_not_there_is_so_for_whoever_may_ask(world: World) -> None:
    assert ask(world, BO, "GET", "/jobs/jaaaaaaaa").status == 404
    assert ask(world, EVE, "GET", "/jobs/jaaaaaaaa").status == 403
    body = {"kind": "cancel", "id": "1"}
    assert ask(world, BO, "POST", "/jobs/jaaaaaaaa/intents", body).status == 404


def test_only_its_owner_or_an_admin_tombstones_a_job(world: World) -> None:
    job = adas(world)
    world.settle(job)
    assert ask(world, BO, "DELETE", f"/jobs/{job}").status == 403
    assert ask(world, EVE, "DELETE", f"/jobs/{job}").status == 403
    assert world.http("DELETE", f"/jobs/{job}").status == 204
    assert world.http("DELETE", f"/jobs/{job}").status == 204
    assert ask(world, EVE, "DELETE", f"/jobs/{job}").status == 403


def test_a_listing_shows_what_may_be_read_and_goes_on_over_what_may_not(world: World) -> None:
    mine = adas(world)
    ask(world, CY, "POST", "/jobs", {"cluster": "main", "spec": SPEC})
    world.clock.forward(1)
    bos = submit(world, BO).body["job_id"]
    seen, cursor = [], ""
    while True:
        page = ask(world, BO, "GET", "/jobs", query=f"limit=1{cursor}").body
        seen += [one["job_id"] for one in page["jobs"]]
        if "cursor" not in page:
            break
        cursor = f"&cursor={page['cursor']}"
    assert seen == [mine, bos]
    assert len(ask(world, CY, "GET", "/jobs").body["jobs"]) == 3
    assert ask(world, EVE, "GET", "/jobs").status == 403
    assert ask(world, BO, "GET", "/jobs", query="limit=101").status == 400


def test_a_job_can_only_be_superseded_by_who_may_read_it(world: World) -> None:
    job = adas(world)
    world.settle(job)
    access = {**ACCESS, "rules": [*ACCESS["rules"], {"who": ["*"], "submit": [{}]}]}
    other = World(world.store, clusters=ruled(access))
    body = {"cluster": "main", "spec": GPU, "supersedes": job}
    assert ask(other, EVE, "POST", "/jobs", body).status == 403
    assert ask(other, BO, "POST", "/jobs", body).status == 201


def test_the_clusters_are_shown_to_whom_any_rule_grants_anything(world: World) -> None:
    assert ask(world, BO, "GET", "/clusters").status == 200
    assert ask(world, EVE, "GET", "/clusters").status == 403


def test_whoami_says_what_the_caller_may(world: World) -> None:
    ada = world.http("GET", "/whoami").body
    assert ada["actor"] == ADA
    assert ada["may"]["teams"] == ["science"]
    assert ada["may"]["submit"][0]["queues"] == ["gpu"]
    assert ada["may"]["intents"]["cancel"] == "team"
    assert ada["may"]["intents"]["hold"] == "own"
    assert (ada["may"]["read"], ada["may"]["tombstone"]) == ("team", "own")
    eve = ask(world, EVE, "GET", "/whoami").body["may"]
    assert eve == {"ruled": True, "admin": False, "teams": [], "submit": [], "intents": {}}
    assert ask(world, CY, "GET", "/whoami").body["may"]["admin"] is True
    assert World().http("GET", "/whoami").body["may"]["ruled"] is False


def test_every_refusal_is_logged_with_the_actor(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    job = adas(world)
    with caplog.at_level(logging.WARNING):
        ask(world, EVE, "POST", f"/jobs/{job}/intents", {"kind": "cancel", "id": "1"})
    (line,) = [one for one in caplog.records if getattr(one, "signal", "") == "access_refused"]
    assert line.__dict__["actor"] == f"iam:{EVE}"
    assert line.__dict__["action"] == f"send cancel to job {job}"


def test_nobody_is_let_through_while_the_rules_can_not_be_had() -> None:
    world = World(clusters="{")
    for method, path in [("GET", "/jobs"), ("POST", "/jobs/jaaaaaaaa/intents"), ("GET", "/whoami")]:
        answer = world.http(method, path, {"kind": "cancel", "id": "1"} if method == "POST" else "")
        assert (answer.status, answer.body["code"]) == (500, "bad_configuration")


def test_the_one_machine_stack_s_user_may_do_everything_whatever_the_rules(world: World) -> None:
    from embedded.listener import local_actor
    from functions.intents.app import make_handler

    handler = make_handler(world.wiring, world.log, actor=local_actor)
    event = http_event("GET", "/whoami")
    event["requestContext"]["authorizer"] = {"local": {"user": "eve"}}
    may = json.loads(handler(event, None)["body"])["may"]
    assert (may["admin"], may["ruled"]) == (True, True)


# --- secrets ----------------------------------------------------------------------------------

KEY = "AKIA" + "IOSFODNN7EXAMPLE"


def test_a_plain_value_that_looks_like_a_key_is_refused_by_its_name() -> None:
    world = World()
    refused = world.submit(spec={**SPEC, "env": {"PLAIN": "1", "MINE": KEY}})
    assert (refused.status, refused.body["field"]) == (400, "spec.env.MINE")
    assert "allow_plain: [MINE]" in refused.body["detail"]
    assert KEY not in refused.text
    assert world.store.list().items == ()


def test_who_insists_is_let_through_by_name_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    spec = {**SPEC, "env": {"MINE": KEY, "OTHER": KEY}}
    refused = world.submit(spec=spec, allow_plain=["MINE"])
    assert refused.body["field"] == "spec.env.OTHER"
    with caplog.at_level(logging.WARNING):
        assert world.submit(spec=spec, allow_plain=["MINE", "OTHER"]).status == 201
    told = [one for one in caplog.records if getattr(one, "signal", "") == "secret_insisted"]
    assert {one.__dict__["actor"] for one in told} == {ADA}
    assert KEY not in caplog.text


def test_insisting_on_what_is_not_there_is_refused() -> None:
    refused = World().submit(allow_plain=["MINE"])
    assert (refused.status, refused.body["field"]) == (400, "allow_plain")


def test_a_reference_is_no_plain_value() -> None:
    world = World()
    spec = {**SPEC, "secrets": {"TOKEN": "secretsmanager:team/token"}}
    job = world.job(spec=spec)
    header = world.http("GET", f"/jobs/{job}/history").body["header"]["body"]
    assert header["spec"]["secrets"] == {"TOKEN": "secretsmanager:team/token"}


def test_a_repeat_of_what_was_taken_once_is_given_back_though_it_would_be_refused_now() -> None:
    world = World()
    spec = {**SPEC, "env": {"MINE": KEY}}
    made = world.submit("k", spec=spec, allow_plain=["MINE"]).body["job_id"]
    again = world.submit("k", spec=spec)
    assert (again.status, again.body["job_id"]) == (200, made)


def test_whoever_may_do_nothing_has_nothing_judged_and_others_are_told_what_they_may_not(
    world: World,
) -> None:
    body = {"cluster": "main", "spec": {**SPEC, "queue": "cpu"}}
    assert ask(world, EVE, "POST", "/lint", body).status == 403
    (barred,) = ask(world, BO, "POST", "/lint", body).body["findings"]
    assert (barred["severity"], barred["code"]) == ("refused", "forbidden")
    assert barred["detail"] == "you may not submit to queue cpu of cluster main"
    assert ask(world, BO, "POST", "/lint", {**body, "spec": GPU}).body["findings"] == []
    assert ask(world, CY, "POST", "/lint", body).body["findings"] == []
