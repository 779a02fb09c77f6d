"""The table put back to an earlier moment while the jobs went on: docs/how-to/restore.md, done.

The engine's own restore to a point in time gives what stands in the table now, whichever time is
asked for. So a backup that was taken at that moment stands in for the point. Restoring it is the
same otherwise: a new table with the items of then, without a stream, backups or protection.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dispatch.client import Client
from dispatch.errors import JobNotFound
from dispatch.record.names import Cause, IntentKind, Outcome
from dispatch.schedulers.local.admin import Administrator
from dispatch.wiring import utc_now
from tests.real.rehearsal.bus import Heard, subscribe, told
from tests.real.rehearsal.conftest import end_jobs
from tests.real.rehearsal.deployment import Deployment, deploy
from tests.real.rehearsal.engine import Engine, until

ACTING = ("Intents", "Supervisor", "Retention")
NEW_TABLE = "restored-records"


@dataclass
class World:
    """One deployment, its jobs by what became of them, and what was before.

    Attributes:
        at: The deployment; its outputs change with the restore.
        ada: Somebody who may call it.
        heard: What it published.
        place: Where scripts say that they run, and are let go on.
        jobs: Ids by name.
        old_table: The table before the restore.
        entries: How many entries a record had when the table was restored.
        at_the_point: How many it had at the moment to which the table was restored.
    """

    at: Deployment
    ada: Client
    heard: Heard
    place: Path
    jobs: dict[str, str] = field(default_factory=dict)
    old_table: str = ""
    entries: dict[str, int] = field(default_factory=dict)
    at_the_point: dict[str, int] = field(default_factory=dict)

    @property
    def admin(self) -> Administrator:
        return Administrator(self.at.spool, utc_now)

    def submit(self, name: str) -> str:
        """A job that says when it begins and ends, and ends when it is let go."""
        say = f'"$DISPATCH_JOB_ID $DISPATCH_SUBMISSION.$DISPATCH_ATTEMPT" >> {self.place}/ran'
        script = (
            f"echo + {say}; trap 'echo - {say}' EXIT; trap 'exit 9' TERM; "
            f"until test -e {self.place}/{name}; do sleep 0.2; done"
        )
        self.jobs[name] = self.at.submit(self.ada, script, name, key=f"restore-{name}")
        return self.jobs[name]

    def let_go(self, name: str) -> None:
        (self.place / name).touch()

    def ran(self, name: str) -> list[str]:
        """Which attempts of a job ran, in their order."""
        return [what for sign, job, what in self.lines() if (sign, job) == ("+", self.jobs[name])]

    def lines(self) -> list[list[str]]:
        return [line.split() for line in (self.place / "ran").read_text().splitlines()]

    def at_once(self) -> int:
        """At most how many runs of one job there ever were at one moment."""
        now: dict[str, int] = {}
        most = 0
        for sign, job, _ in self.lines():
            now[job] = now.get(job, 0) + (1 if sign == "+" else -1)
            most = max(most, now[job])
        return most

    def until_runs(self, name: str, attempt: str) -> None:
        def runs() -> bool:
            self.at.look()
            return attempt in self.ran(name)

        until(f"{name} runs as {attempt}", runs)

    def ends(self, name: str) -> Any:
        """The status of a job once it has settled."""
        return self.at.looked_until(
            self.ada, self.jobs[name], "settles", lambda status: status.settled_at is not None
        )

    def table(self, name: str) -> dict[tuple[str, str], Any]:
        pages = self.at.engine.client("dynamodb").get_paginator("scan").paginate(TableName=name)
        return {
            (item["pk"]["S"], item["sk"]["S"]): item for page in pages for item in page["Items"]
        }


def count(table: dict[tuple[str, str], Any], job: str) -> int:
    return sum(pk == f"JOB#{job}" and sk.startswith("E#") for pk, sk in table)


@pytest.fixture(scope="module")
def world(
    engine: Engine, ada_s_key: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    place = tmp_path_factory.mktemp("restore")
    (place / "ran").touch()
    made = deploy(engine, "again", TickState="DISABLED", ClustersParameter="/again/clusters")
    with made.client(made.signing(ada_s_key)) as ada:
        yield World(made, ada, subscribe(made), place)
    end_jobs(made)


@pytest.fixture(scope="module")
def restored(world: World) -> World:
    """What the page says, step by step; the jobs of each line of its table are open meanwhile."""
    at = world.at
    world.submit("settled")
    world.let_go("settled")
    world.ends("settled")
    for name in ("lags", "again", "forgotten", "cancelled"):
        world.submit(name)
        world.until_runs(name, "1.1")
    at.stop_functions("Supervisor")
    world.submit("unstarted")
    aws = at.engine.client("dynamodb")
    world.old_table = at.outputs["Table"]
    then = aws.create_backup(TableName=world.old_table, BackupName="then")["BackupDetails"]
    world.at_the_point = {
        job: count(world.table(world.old_table), job) for job in world.jobs.values()
    }
    at.let_run("Supervisor")

    _go_on(world)

    at.stop_functions(*ACTING)
    world.entries = {job: count(world.table(world.old_table), job) for job in world.jobs.values()}
    aws.restore_table_from_backup(TargetTableName=NEW_TABLE, BackupArn=then["BackupArn"])
    aws.get_waiter("table_exists").wait(TableName=NEW_TABLE)
    aws.update_table(
        TableName=NEW_TABLE,
        DeletionProtectionEnabled=True,
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    aws.update_continuous_backups(
        TableName=NEW_TABLE,
        PointInTimeRecoverySpecification={
            "PointInTimeRecoveryEnabled": True,
            "RecoveryPeriodInDays": 35,
        },
    )
    stream = aws.describe_table(TableName=NEW_TABLE)["Table"]["LatestStreamLabel"]
    world.at = deploy(
        at.engine,
        at.name,
        TickState="DISABLED",
        ClustersParameter="/again/clusters",
        RestoredTable=NEW_TABLE,
        RestoredTableStream=stream,
    )
    return world


def _go_on(world: World) -> None:
    """What happens between the moment that is restored and the restore."""
    world.let_go("lags")
    assert world.ends("lags").outcome is Outcome.SUCCEEDED
    world.until_runs("unstarted", "1.1")
    world.admin.preempt(str(world.ada.get(world.jobs["again"]).ref))
    world.until_runs("again", "2.1")
    world.ada.intend(world.jobs["cancelled"], IntentKind.CANCEL)
    assert world.ends("cancelled").outcome is Outcome.CANCELLED
    world.let_go("forgotten")
    assert world.ends("forgotten").outcome is Outcome.SUCCEEDED
    objects = world.at.spool / "objects"
    kept = objects / f"{world.jobs['forgotten']}.1.1"
    kept.rename(objects.with_name("forgotten") / kept.name)
    world.submit("unknown")
    world.until_runs("unknown", "1.1")


@pytest.fixture(scope="module")
def resumed(restored: World) -> World:
    """Everything may act again, and has looked a few times."""
    restored.at.let_run(*ACTING)
    for _ in range(3):
        assert restored.at.look()["failed"] is None
    return restored


def test_the_functions_read_and_write_the_restored_table_and_no_other(restored: World) -> None:
    assert restored.at.outputs["Table"] == NEW_TABLE
    aws = restored.at.engine.client("lambda")
    for name in ("Intents", "Supervisor", "Events", "Retention"):
        told = aws.get_function_configuration(
            FunctionName=restored.at.outputs[f"{name}FunctionName"], Qualifier="live"
        )
        assert told["Environment"]["Variables"]["DISPATCH_TABLE"] == NEW_TABLE
    mappings = aws.list_event_source_mappings()["EventSourceMappings"]
    streams = [
        one["EventSourceArn"]
        for one in mappings
        if f":{restored.at.name}-" in one["FunctionArn"] and ":dynamodb:" in one["EventSourceArn"]
    ]
    assert len(streams) == 2
    assert all(f"/{NEW_TABLE}/" in one for one in streams)


def test_a_restored_table_is_as_safe_as_the_first_was(restored: World) -> None:
    table = restored.at.engine.client("dynamodb").describe_table(TableName=NEW_TABLE)["Table"]
    assert table["DeletionProtectionEnabled"] is True
    first = restored.at.engine.client("dynamodb").describe_table(TableName=restored.old_table)
    indexes = {one["IndexName"] for one in first["Table"]["GlobalSecondaryIndexes"]}
    assert {one["IndexName"] for one in table["GlobalSecondaryIndexes"]} == indexes


def test_records_lag_behind_and_the_old_table_still_has_the_rest(restored: World) -> None:
    new, old = restored.table(NEW_TABLE), restored.table(restored.old_table)
    for name, job in restored.jobs.items():
        assert count(new, job) == restored.at_the_point.get(job, 0), name
        assert count(old, job) == restored.entries[job] > 0, name
    shared = [key for key in new if key[1].startswith("E#")]
    assert shared
    assert all(new[key] == old[key] for key in shared)


def test_what_had_settled_stays_settled(resumed: World) -> None:
    job = resumed.jobs["settled"]
    status = resumed.ada.get(job)
    assert (status.outcome, status.settled_at is not None) == (Outcome.SUCCEEDED, True)
    assert len(resumed.ada.record(job).entries) == resumed.at_the_point[job]


def test_a_record_that_lags_catches_up_and_its_job_runs_no_second_time(resumed: World) -> None:
    over = resumed.ends("lags")
    assert (over.outcome, over.submission) == (Outcome.SUCCEEDED, 1)
    assert resumed.ran("lags") == ["1.1"]
    job = resumed.jobs["lags"]
    events = [one for one in resumed.heard() if one["detail"].get("job_id") == job]
    ids = {one["detail"]["id"] for one in events if one["detail-type"] == "dispatch.outcome.v1"}
    assert ids == {f"{job}/outcome"}, "told a second time, under the same id"


def test_a_later_run_whose_record_lost_its_attempt_is_told_of_and_never_touched(
    resumed: World,
) -> None:
    for name, attempt in (("again", "2.1"), ("unstarted", "1.1")):
        job = resumed.jobs[name]
        alarm = told(resumed.heard, job, "dispatch.escalation.v1")["detail"]
        assert alarm["code"] == "foreign_object", name
        for _ in range(3):
            resumed.at.look()
        status = resumed.ada.get(job)
        assert status.outcome is None
        assert any(one.what == "person" for one in status.waiting_for), status
        assert resumed.at.objects(job)[-1] == attempt
        assert resumed.ran(name)[-1] == attempt
        assert ["-", job, attempt] not in resumed.lines(), "it was stopped"


def test_once_that_run_is_over_the_plan_goes_on_with_a_new_attempt(resumed: World) -> None:
    resumed.let_go("again")
    over = resumed.ends("again")
    assert (over.outcome, over.submission) == (Outcome.SUCCEEDED, 2)
    ran = resumed.ran("again")
    assert ran[:2] == ["1.1", "2.1"]
    assert [one.partition(".")[0] for one in ran[2:]] == ["2"], "once more, as a new attempt"


def test_a_person_who_holds_the_job_lets_that_run_be_the_last(resumed: World) -> None:
    job = resumed.jobs["unstarted"]
    resumed.ada.intend(job, IntentKind.HOLD, reason="what runs is its work")
    resumed.let_go("unstarted")
    until("it ended", lambda: ["-", job, "1.1"] in resumed.lines())
    for _ in range(3):
        resumed.at.look()
    assert resumed.ran("unstarted") == ["1.1"]
    resumed.ada.intend(job, IntentKind.CANCEL, reason="it is done")
    assert resumed.ends("unstarted").outcome is Outcome.CANCELLED
    assert resumed.ran("unstarted") == ["1.1"]


def test_a_job_whose_end_was_forgotten_asks_a_person_and_does_not_run_again(
    resumed: World,
) -> None:
    job = resumed.jobs["forgotten"]
    asked = resumed.at.looked_until(
        resumed.ada,
        job,
        "asks",
        lambda status: any(one.what == "person" for one in status.waiting_for),
    )
    assert (asked.outcome, asked.cause) == (None, Cause.LOST)
    assert told(resumed.heard, job, "dispatch.recovery_hold.v1")["detail"]["cause"] == "lost"
    resumed.ada.intend(job, IntentKind.GIVE_UP, reason="it had succeeded")
    over = resumed.ends("forgotten")
    assert (over.outcome, over.cause) == (Outcome.FAILED, Cause.LOST)
    assert resumed.ran("forgotten") == ["1.1"]


def test_a_cancel_that_was_lost_is_not_forgotten_by_the_cluster(resumed: World) -> None:
    job = resumed.jobs["cancelled"]
    asked = resumed.at.looked_until(
        resumed.ada,
        job,
        "asks",
        lambda status: any(one.what == "person" for one in status.waiting_for),
    )
    assert asked.outcome is None
    resumed.ada.intend(job, IntentKind.CANCEL, reason="again")
    assert resumed.ends("cancelled").outcome is Outcome.CANCELLED
    assert resumed.ran("cancelled") == ["1.1"]


def test_a_job_without_a_record_is_left_alone_and_its_key_finds_it_again(resumed: World) -> None:
    job = resumed.jobs["unknown"]
    with pytest.raises(JobNotFound):
        resumed.ada.get(job)
    assert ["-", job, "1.1"] not in resumed.lines(), "it was stopped"
    assert resumed.submit("unknown") == job
    told(resumed.heard, job, "dispatch.escalation.v1")
    for _ in range(3):
        resumed.at.look()
    assert resumed.ran("unknown") == ["1.1"]
    assert resumed.at.objects(job) == ["1.1"]
    resumed.ada.intend(job, IntentKind.CANCEL)
    resumed.at.look()
    assert ["-", job, "1.1"] not in resumed.lines(), "a person ends what no record started"
    (ref,) = [order.ref for order, _ in resumed.admin.objects() if order.job == job]
    resumed.admin.cancel(ref)
    assert resumed.ends("unknown").outcome is Outcome.CANCELLED
    assert resumed.ran("unknown") == ["1.1"]


def test_a_new_job_wakes_a_worker_through_the_new_table_s_stream(resumed: World) -> None:
    resumed.submit("new")
    until("it runs without a look", lambda: resumed.ran("new") == ["1.1"])
    resumed.let_go("new")
    assert resumed.ends("new").outcome is Outcome.SUCCEEDED


def test_through_all_of_it_no_job_ever_ran_twice_at_once(resumed: World) -> None:
    assert resumed.at_once() == 1
    assert resumed.at.waiting("Dead") == 0
    old = resumed.table(resumed.old_table)
    assert {job: count(old, job) for job in resumed.entries} == resumed.entries
