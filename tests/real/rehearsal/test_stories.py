"""Jobs from a signed call to their end: the API, the stream, the queue, the schedule, the bus."""

from datetime import datetime
from pathlib import Path

import pytest

from dispatch.client import Client
from dispatch.errors import JobTombstoned, SchemaRefused
from dispatch.record.names import Cause, IntentKind, Outcome
from dispatch.schedulers.local.admin import Administrator
from dispatch.wiring import utc_now
from tests.real.rehearsal.bus import Heard, told
from tests.real.rehearsal.deployment import Deployment
from tests.real.rehearsal.engine import until


@pytest.mark.usefixtures("ticking")
def test_the_schedule_alone_brings_a_job_to_its_end(
    deployed: Deployment, ada: Client, heard: Heard
) -> None:
    job = deployed.submit(ada, "echo hello from the cloud; sleep 2", "hello")
    status = until("its outcome", lambda: s if (s := ada.get(job)).outcome else None)
    assert status.outcome is Outcome.SUCCEEDED
    assert status.created_by == "iam:arn:aws:iam::000000000000:user/ada"
    assert ada.logs(job).text == "hello from the cloud\n"
    event = told(heard, job, "dispatch.outcome.v1")
    assert event["source"] == "dispatch"
    assert event["detail"]["outcome"] == "succeeded"
    assert event["detail"]["version"] == 1
    settled = until("it settles", lambda: ada.get(job).settled_at)
    said = told(heard, job, "dispatch.settled.v1")["detail"]["at"]
    assert said[:19] == f"{settled:%Y-%m-%dT%H:%M:%S}"


@pytest.mark.usefixtures("ticking")
def test_ticks_come_by_themselves(ada: Client) -> None:
    def ticked() -> datetime | None:
        health = ada.clusters()[0].health
        return health.last_tick if health else None

    first = until("a tick", ticked)
    until("another tick", lambda: (at := ticked()) and at > first)


class TestWithoutASchedule:
    """Nothing ticks here, so what happens is the stream's doing, or that of a look by hand."""

    def test_a_new_job_wakes_a_worker(self, deployed: Deployment, ada: Client) -> None:
        job = deployed.submit(ada, "sleep 600", "woken")
        until("it was started", lambda: ada.get(job).submission == 1)
        ada.intend(job, IntentKind.CANCEL)

    def test_a_cancel_wakes_a_worker_that_stops_the_job(
        self, deployed: Deployment, ada: Client, tmp_path: Path, heard: Heard
    ) -> None:
        ended = tmp_path / "ended"
        job = deployed.submit(ada, f"trap 'touch {ended}; exit 3' TERM; sleep 600 & wait", "stop")
        deployed.looked_until(ada, job, "runs", lambda status: status.run == 1)
        ada.intend(job, IntentKind.CANCEL, reason="no longer wanted")
        until("the job was told to stop", ended.exists)
        status = deployed.looked_until(ada, job, "ends", lambda status: status.outcome is not None)
        assert status.outcome is Outcome.CANCELLED
        assert told(heard, job, "dispatch.outcome.v1")["detail"]["outcome"] == "cancelled"

    def test_a_preempted_job_runs_again_and_its_file_knows_which_run_it_is(
        self, deployed: Deployment, ada: Client
    ) -> None:
        script = 'test "$DISPATCH_EPOCH" -ge 2000000 && exit 0; sleep 600'
        job = deployed.submit(ada, script, "again")
        status = deployed.looked_until(ada, job, "runs", lambda status: status.run == 1)
        assert status.ref
        Administrator(deployed.spool, utc_now).preempt(status.ref)
        status = deployed.looked_until(ada, job, "ends", lambda status: status.outcome is not None)
        assert (status.outcome, status.submission) == (Outcome.SUCCEEDED, 2)

    def test_a_job_with_an_error_of_its_own_fails(self, deployed: Deployment, ada: Client) -> None:
        job = deployed.submit(ada, "exit 7", "broken")
        status = deployed.looked_until(ada, job, "ends", lambda status: status.outcome is not None)
        assert (status.outcome, status.cause, status.exit_code) == (
            Outcome.FAILED,
            Cause.APP_ERROR,
            7,
        )

    def test_one_key_makes_one_job(self, deployed: Deployment, ada: Client) -> None:
        first = deployed.submit(ada, "true", "once", key="the-same-key")
        assert deployed.submit(ada, "true", "once", key="the-same-key") == first

    def test_only_what_is_tombstoned_is_removed_and_its_key_stays(
        self, deployed: Deployment, ada: Client
    ) -> None:
        job = deployed.submit(ada, "true", "forgotten", key="a-key-for-ever")
        kept = deployed.submit(ada, "true", "kept")
        for one in (job, kept):
            deployed.looked_until(ada, one, "settles", lambda status: status.settled_at is not None)
        ada.tombstone(job)
        removed = deployed.invoke("Retention", {})
        assert removed["failed"] is None, removed
        assert removed["answer"]["complete"] is True
        assert [item["sk"]["S"] for item in deployed.items(f"JOB#{job}")] == ["HEAD"]
        assert deployed.items("KEY#a-key-for-ever")[0]["job_id"]["S"] == job
        with pytest.raises(JobTombstoned):
            ada.get(job)
        assert ada.get(kept).outcome is Outcome.SUCCEEDED

    def test_a_record_newer_than_the_reader_is_left_alone_and_can_still_be_cancelled(
        self, deployed: Deployment, ada: Client, heard: Heard
    ) -> None:
        job = deployed.submit(ada, "sleep 600", "newer")
        deployed.looked_until(ada, job, "runs", lambda status: status.run == 1)
        revision = append_from_the_future(deployed, job)
        # A person hears of it from the entry itself, without a look and before anybody acts.
        alarm = told(heard, job, "dispatch.escalation.v1")["detail"]
        assert (alarm["code"], alarm["key"]) == (SchemaRefused.code, f"refused/{revision}")
        answer = deployed.look(jobs=[job])
        assert answer["failed"] is None
        assert len(ada.record(job).entries) == revision
        receipt = ada.intend(job, IntentKind.CANCEL, reason="an older build still takes this")
        assert receipt.job_id == job
        deployed.look(jobs=[job])
        record = ada.record(job)
        assert len(record.entries) == revision + 1
        assert record.entries[-1].schema == "dispatch.control.v1"


def append_from_the_future(deployed: Deployment, job: str) -> int:
    """Commit a fact of a schema that this build doesn't know, as a newer build would."""
    aws = deployed.engine.client("dynamodb")
    table = deployed.outputs["Table"]
    head = next(item for item in deployed.items(f"JOB#{job}") if item["sk"]["S"] == "HEAD")
    revision = int(head["revision"]["N"]) + 1
    key = {"pk": {"S": f"JOB#{job}"}}
    entry = {
        **key,
        "sk": {"S": f"E#{revision:010d}"},
        "job_id": {"S": job},
        "revision": {"N": str(revision)},
        "schema": {"S": "dispatch.fact.v99"},
        "kind": {"S": "observed"},
        "body": {"S": '{"fact":"observed","of":"another time"}'},
        "token": {"S": "from-the-future"},
    }
    aws.transact_write_items(
        TransactItems=[
            {
                "Update": {
                    "TableName": table,
                    "Key": {**key, "sk": {"S": "HEAD"}},
                    "UpdateExpression": "SET revision = :next",
                    "ConditionExpression": "revision = :seen",
                    "ExpressionAttributeValues": {
                        ":next": {"N": str(revision)},
                        ":seen": {"N": str(revision - 1)},
                    },
                }
            },
            {"Put": {"TableName": table, "Item": entry}},
        ]
    )
    return revision
