"""An upgrade over open jobs, the way back over open records, and records of builds long released.

The later build is this one with a fact schema of its own (`builds.py`), so what it writes is truly
unknown to this one. Each stage is a fixture that deploys and acts; its tests say what held.
"""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from dispatch.api import SubmitRequest
from dispatch.client import Client
from dispatch.errors import SchemaRefused
from dispatch.record.codec import decode_header
from dispatch.record.names import IntentKind, Outcome
from dispatch.store import items
from tests.real.rehearsal.builds import LATER_SCHEMA, later_layer
from tests.real.rehearsal.bus import Heard, told
from tests.real.rehearsal.deployment import CLUSTER, FUNCTIONS, Deployment, deploy
from tests.real.rehearsal.engine import until
from tests.record.released import ALL, DIGESTS, Released, table_items

FACTS = "dispatch.fact.v1"
STILL = "DISABLED"
"""The schedule's state. The engine applies everything anew, so a deployment would turn it on again;
and what a tick set going shortly before a change of versions would be written by the wrong one."""


# --- records of builds that were released -------------------------------------------------------


@pytest.fixture(scope="module")
def released(deployed: Deployment) -> Iterator[list[Released]]:
    """Records as those builds left them, put into the table item by item; nobody acts yet."""
    deployed.stop_functions("Supervisor")
    aws = deployed.engine.client("dynamodb")
    for build in DIGESTS:
        for item in table_items(build):
            aws.put_item(TableName=deployed.outputs["Table"], Item=item)
    yield ALL
    deployed.let_run("Supervisor")


def by_name(released: list[Released]) -> dict[str, str]:
    return {one.name: one.job_id for one in released}


def test_records_of_released_builds_are_answered_as_they_were_meant(
    released: list[Released], ada: Client
) -> None:
    for one in released:
        status = ada.get(one.job_id)
        said = (status.outcome, status.submission, status.attempt, status.settled_at is not None)
        meant = one.means
        assert said == (
            meant["outcome"],
            meant["submission"],
            meant["attempt"],
            meant["settled"],
        ), one.name


def test_records_of_released_builds_are_listed(released: list[Released], ada: Client) -> None:
    shown = {line.job_id for line in ada.jobs(cluster=CLUSTER)}
    assert {one.job_id for one in released} <= shown


def test_open_records_of_released_builds_go_on_to_their_end(
    deployed: Deployment, released: list[Released], ada: Client
) -> None:
    """Their objects are nowhere, as after a machine was replaced: each takes its plan's course."""
    jobs = by_name(released)
    before = {one.job_id: one.view for one in released}
    deployed.let_run("Supervisor")

    def ends(name: str, outcome: Outcome, submission: int) -> None:
        status = deployed.looked_until(
            ada, jobs[name], "settles", lambda status: status.settled_at is not None
        )
        assert (status.outcome, status.submission) == (outcome, submission), name

    ends("never-looked-at", Outcome.SUCCEEDED, 1)
    ends("start-sent", Outcome.SUCCEEDED, 1)
    ends("running", Outcome.SUCCEEDED, 2)
    ends("cancel-under-way", Outcome.CANCELLED, 1)
    assert ada.get(jobs["start-sent"]).attempt == 2
    assert ada.get(jobs["held"]).outcome is None
    assert ada.get(jobs["asks-a-person"]).outcome is None
    ada.intend(jobs["held"], IntentKind.RELEASE)
    ends("held", Outcome.SUCCEEDED, 2)
    ada.intend(jobs["asks-a-person"], IntentKind.RESUBMIT)
    ends("asks-a-person", Outcome.SUCCEEDED, 2)
    for one in released:
        now = ada.record(one.job_id)
        assert now.header.body == before[one.job_id].header.body
        stood = before[one.job_id].entries
        assert [entry.body for entry in now.entries[: len(stood)]] == [one.body for one in stood]
        assert one.means["settled"] is False or len(now.entries) == len(stood)


def test_a_key_of_a_released_build_still_stands_for_its_job(
    released: list[Released], ada: Client
) -> None:
    for one in released:
        header = decode_header(one.view.header)
        request = SubmitRequest(spec=header.spec, cluster=CLUSTER, plan=header.plan)
        answer = ada.submit(request, key=header.idempotency_key)
        assert (answer.job_id, answer.created) == (one.job_id, False)


# --- an upgrade and back --------------------------------------------------------------------------


@dataclass
class Journey:
    """Jobs that are open while versions change under them.

    Attributes:
        ends: Ends when its file appears; started by the first version.
        stays: Runs all along and ends when its file appears; nothing new is seen of it meanwhile.
        held: Held by a person before it ever ran.
        at_first: The versions before the upgrade.
        place: Where the files appear, and `ran` says what ran.
        fresh: Started by the later version.
        known: How many entries it had when it was cancelled.
        at_last: The versions of the upgrade.
    """

    ends: str
    stays: str
    held: str
    at_first: dict[str, str]
    place: Path
    fresh: str = ""
    known: int = 0
    at_last: dict[str, str] | None = None

    def ran(self) -> Counter[str]:
        return Counter((self.place / "ran").read_text().split())


def waiting_for(place: Path, name: str) -> str:
    """A script that says that it runs, and ends once somebody lets it."""
    return (
        f'echo "$DISPATCH_JOB_ID" >> {place}/ran; until test -e {place}/{name}; do sleep 0.2; done'
    )


def _quiet(deployed: Deployment, job: str) -> bool:
    """Whether the supervisor itself has left the hint that it waits for no time."""
    deployed.look()
    (head,) = [item for item in deployed.items(f"JOB#{job}") if item["sk"]["S"] == "HEAD"]
    due = items.due_of(head)
    hint = due.quiet
    return hint is not None and hint.revision == due.revision and hint.wait_until is None


def _says(file: Path, job: str) -> bool:
    return job in file.read_text()


@pytest.fixture(scope="module")
def journey(
    deployed: Deployment,
    ada_s_key: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Journey]:
    place = tmp_path_factory.mktemp("journey")
    (place / "ran").touch()
    with deployed.client(deployed.signing(ada_s_key)) as ada:
        ends = deployed.submit(ada, waiting_for(place, "ends"), "ends")
        stays = deployed.submit(ada, waiting_for(place, "stays"), "stays")
        deployed.stop_functions("Supervisor")
        held = deployed.submit(ada, waiting_for(place, "held"), "held")
        ada.intend(held, IntentKind.HOLD)
        deployed.let_run("Supervisor")
        for job in (ends, stays):
            deployed.looked_until(ada, job, "is seen running", lambda one: one.state == "running")
            until("nothing more is to be written of it", partial(_quiet, deployed, job))
            until("it says so", partial(_says, place / "ran", job))
        first = deployed.versions()
        yield Journey(ends, stays, held, first, place)
        for name in ("ends", "stays", "held", "fresh"):
            (place / name).touch()
        deployed.shift(first)


@pytest.fixture(scope="module")
def upgraded(deployed: Deployment, journey: Journey) -> Journey:
    """The later build, deployed over them."""
    deploy(deployed.engine, deployed.name, layer=later_layer(), TickState=STILL)
    deployed.until_idle()
    journey.at_last = deployed.versions()
    return journey


def test_a_release_that_changes_only_the_layer_moves_every_alias(upgraded: Journey) -> None:
    assert upgraded.at_last is not None
    assert all(upgraded.at_last[name] != upgraded.at_first[name] for name in FUNCTIONS)


def test_open_jobs_go_on_under_the_later_version_and_none_starts_again(
    deployed: Deployment, upgraded: Journey, ada: Client
) -> None:
    (upgraded.place / "ends").touch()
    over = deployed.looked_until(ada, upgraded.ends, "ends", lambda status: bool(status.outcome))
    assert (over.outcome, over.submission) == (Outcome.SUCCEEDED, 1)
    schemas = [entry.schema for entry in ada.record(upgraded.ends).entries]
    turn = schemas.index(LATER_SCHEMA)
    assert set(schemas[:turn]) == {FACTS}
    assert set(schemas[turn:]) == {LATER_SCHEMA}
    assert ada.get(upgraded.held).submission <= 1
    assert upgraded.ran() == {upgraded.ends: 1, upgraded.stays: 1}


def test_while_traffic_shifts_both_versions_serve_the_same_jobs_and_nothing_runs_twice(
    deployed: Deployment, upgraded: Journey, ada: Client
) -> None:
    """The engine keeps an alias's weights but sends all calls one way, so both are called here."""
    assert upgraded.at_last is not None
    both = (upgraded.at_first["Supervisor"], upgraded.at_last["Supervisor"])
    script = waiting_for(upgraded.place, "shifted")
    jobs = [deployed.submit(ada, script, f"shifted-{k}") for k in range(3)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            looks = [pool.submit(deployed.look, version=version) for version in both * 2]
            assert [one.result()["failed"] for one in looks] == [None] * 4
    (upgraded.place / "shifted").touch()
    for job in jobs:
        over = deployed.looked_until(ada, job, "ends", lambda status: bool(status.outcome))
        assert (over.outcome, over.submission) == (Outcome.SUCCEEDED, 1)
    assert {job: upgraded.ran()[job] for job in jobs} == dict.fromkeys(jobs, 1)


@pytest.fixture(scope="module")
def taken_back(deployed: Deployment, upgraded: Journey, ada_s_key: tuple[str, str]) -> Journey:
    """A job that the later version started, and then the earlier build deployed over it."""
    with deployed.client(deployed.signing(ada_s_key)) as ada:
        upgraded.fresh = deployed.submit(ada, waiting_for(upgraded.place, "fresh"), "fresh")
        deployed.looked_until(ada, upgraded.fresh, "runs", lambda status: status.run == 1)
        until("it says so", lambda: upgraded.fresh in upgraded.ran())
    deploy(deployed.engine, deployed.name, TickState=STILL)
    # A worker of the later version that is still at work might see more, and write it in its way.
    deployed.until_idle()
    return upgraded


def test_the_way_back_is_a_deployment_of_the_earlier_build(
    deployed: Deployment, taken_back: Journey
) -> None:
    assert deployed.versions() != taken_back.at_last


def test_what_the_later_version_wrote_is_refused_and_left_alone(
    deployed: Deployment, taken_back: Journey, ada: Client, heard: Heard
) -> None:
    job = taken_back.fresh
    with pytest.raises(SchemaRefused):
        ada.get(job)
    entries = ada.record(job).entries
    assert LATER_SCHEMA in {entry.schema for entry in entries}
    for _ in range(3):
        assert deployed.look(jobs=[job]) == {"failed": None, "answer": {"batchItemFailures": []}}
        assert deployed.look()["failed"] is None
    assert ada.record(job).entries == entries
    assert deployed.objects(job) == ["1.1"]
    assert taken_back.ran()[job] == 1

    def raised() -> bool:
        lines = deployed.logged("Supervisor")
        said = [one["message"] for one in lines if one.get("signal") == "record_refused"]
        return any(job in message for message in said)

    until("what the alarm is raised on is logged", raised)


@pytest.fixture(scope="module")
def cancelled(
    deployed: Deployment, taken_back: Journey, ada_s_key: tuple[str, str], heard: Heard
) -> Journey:
    """What only the later version can read is cancelled while the earlier one serves."""
    with deployed.client(deployed.signing(ada_s_key)) as ada:
        taken_back.known = len(ada.record(taken_back.fresh).entries)
        ada.intend(taken_back.fresh, IntentKind.CANCEL, reason="the earlier build takes this")
    return taken_back


def test_it_can_be_cancelled_by_the_version_that_can_not_read_it(
    deployed: Deployment, cancelled: Journey, ada: Client, heard: Heard
) -> None:
    job = cancelled.fresh
    alarm = told(heard, job, "dispatch.escalation.v1")["detail"]
    assert alarm["code"] == SchemaRefused.code
    deployed.look(jobs=[job])
    after = ada.record(job).entries
    assert [entry.schema for entry in after[cancelled.known :]] == ["dispatch.control.v1"]
    assert not (cancelled.place / "fresh").exists()
    assert deployed.objects(job) == ["1.1"]


def test_all_other_jobs_go_on_under_the_earlier_version(
    deployed: Deployment, taken_back: Journey, ada: Client
) -> None:
    (taken_back.place / "stays").touch()
    over = deployed.looked_until(ada, taken_back.stays, "ends", lambda one: bool(one.outcome))
    assert (over.outcome, over.submission) == (Outcome.SUCCEEDED, 1)
    assert {entry.schema for entry in ada.record(taken_back.stays).entries} == {FACTS}
    new = deployed.submit(ada, "true", "after-the-way-back")
    deployed.looked_until(ada, new, "ends", lambda status: status.outcome is Outcome.SUCCEEDED)


def test_nothing_of_it_ends_in_a_dead_letter_queue(
    deployed: Deployment, taken_back: Journey
) -> None:
    assert (deployed.waiting("Dead"), deployed.waiting("Unread")) == (0, 0)


def test_once_the_later_version_is_back_the_cancel_is_carried_out(
    deployed: Deployment, cancelled: Journey, ada: Client
) -> None:
    """By a shift of the aliases, which is what CodeDeploy does; versions are kept for that."""
    assert cancelled.at_last is not None
    deployed.shift(cancelled.at_last)
    job = cancelled.fresh
    over = deployed.looked_until(ada, job, "settles", lambda status: status.settled_at is not None)
    assert over.outcome is Outcome.CANCELLED
    assert cancelled.ran()[job] == 1
    ada.intend(cancelled.held, IntentKind.RELEASE)
    (cancelled.place / "held").touch()
    last = deployed.looked_until(ada, cancelled.held, "ends", lambda status: bool(status.outcome))
    assert (last.outcome, last.submission) == (Outcome.SUCCEEDED, 1)
    assert set(cancelled.ran().values()) == {1}
