"""What goes wrong in a cloud: poison, deaths, doubles, late deliveries. Nothing changes by it."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.exceptions import BotoCoreError

from dispatch.client import Client
from dispatch.record.names import IntentKind, Outcome
from tests.real.rehearsal.bus import Heard, told
from tests.real.rehearsal.deployment import CLUSTER, Deployment
from tests.real.rehearsal.engine import until

POISON = '{"cluster": "here", "jobs": [], "surprise": true}'


def test_a_poison_message_ends_in_the_dead_letter_queue_and_nothing_else_is_lost(
    deployed: Deployment, ada: Client
) -> None:
    sqs = deployed.engine.client("sqs")
    work, dead = deployed.outputs["WorkQueueUrl"], deployed.outputs["DeadQueueUrl"]
    # As deployed it takes an hour until the fifth try has failed. Yet five times as long as this no
    # good message may take, or it would be given up as well.
    with hidden_for(deployed, 3):
        for _ in range(3):
            sqs.send_message(QueueUrl=work, MessageBody=POISON)
        job = deployed.submit(ada, "true", "beside-poison")
        good = json.dumps({"cluster": CLUSTER})
        until("the job beside it ends", lambda: _queued_until_over(deployed, ada, job, good))
        assert ada.get(job).outcome is Outcome.SUCCEEDED

        found: list[str] = []

        def dead_letters() -> bool:
            answer = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10)
            for message in answer.get("Messages", ()):
                found.append(message["Body"])
                sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
            return len(found) == 3

        until("three dead letters", dead_letters)
        assert found == [POISON] * 3

        deployed.until_idle()
        assert "Messages" not in sqs.receive_message(QueueUrl=dead)


def test_dead_messages_can_be_sent_again_once_their_cause_is_gone(
    deployed: Deployment, ada: Client
) -> None:
    """As `aws sqs start-message-move-task` does, which the engine doesn't know."""
    sqs = deployed.engine.client("sqs")
    work, dead = deployed.outputs["WorkQueueUrl"], deployed.outputs["DeadQueueUrl"]
    deployed.stop_functions("Supervisor")
    try:
        job = deployed.submit(ada, "true", "redriven")
        sqs.send_message(QueueUrl=dead, MessageBody=json.dumps({"cluster": CLUSTER, "jobs": [job]}))
        assert ada.get(job).submission == 0
    finally:
        deployed.let_run("Supervisor")

    def moved() -> bool:
        for message in sqs.receive_message(QueueUrl=dead).get("Messages", ()):
            sqs.send_message(QueueUrl=work, MessageBody=message["Body"])
            sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
        return deployed.waiting("Dead") == 0

    until("the dead-letter queue is empty", moved)
    until("it was started", lambda: ada.get(job).submission == 1)
    over = deployed.looked_until(ada, job, "ends", lambda status: status.outcome is not None)
    assert (over.outcome, over.submission) == (Outcome.SUCCEEDED, 1)
    assert deployed.waiting("Dead") == 0


@contextmanager
def hidden_for(deployed: Deployment, seconds: int) -> Iterator[None]:
    """Messages that no worker finished come back so soon, and not after twelve minutes."""
    sqs, work = deployed.engine.client("sqs"), deployed.outputs["WorkQueueUrl"]
    asked = {"QueueUrl": work, "AttributeNames": ["VisibilityTimeout"]}
    was = sqs.get_queue_attributes(**asked)["Attributes"]["VisibilityTimeout"]
    sqs.set_queue_attributes(QueueUrl=work, Attributes={"VisibilityTimeout": str(seconds)})
    try:
        yield
    finally:
        sqs.set_queue_attributes(QueueUrl=work, Attributes={"VisibilityTimeout": was})


def _queued_until_over(deployed: Deployment, ada: Client, job: str, good: str) -> bool:
    if ada.get(job).outcome is not None:
        return True
    sqs = deployed.engine.client("sqs")
    sqs.send_message(QueueUrl=deployed.outputs["WorkQueueUrl"], MessageBody=good)
    time.sleep(1)
    return False


def test_killing_workers_in_the_middle_of_a_pass_changes_nothing(
    deployed: Deployment, ada: Client, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    script = f'echo "$DISPATCH_JOB_ID" >> {ran}; sleep 1'
    function = deployed.outputs["SupervisorFunctionName"]
    jobs: list[str] = []
    # What the dead leave unfinished is delivered once more, to others.
    with hidden_for(deployed, 10), ThreadPoolExecutor(1) as pool:
        for k in range(4):
            fresh = [deployed.submit(ada, script, f"killed-{k}-{n}") for n in range(3)]
            jobs += fresh
            passing = pool.submit(deployed.look)
            # Later each time: one fact of the pass is recorded, then two, and so on.
            while not _have_facts(deployed, fresh, k + 1):
                if passing.done():
                    passing = pool.submit(deployed.look)
            killed = [_killed(worker) for worker in deployed.engine.workers(function)]
            assert any(killed), "no worker was at work"
            # Whether the invocation failed, or another's worker was met: both may be.
            with suppress(BotoCoreError):
                passing.result()
        deployed.until_idle()
    for job in jobs:
        status = deployed.looked_until(ada, job, "ends", lambda status: status.outcome is not None)
        assert status.outcome is Outcome.SUCCEEDED
        assert status.escalations == ()
    assert Counter(ran.read_text().split()) == dict.fromkeys(jobs, 1)


def _have_facts(deployed: Deployment, jobs: list[str], least: int) -> bool:
    found = [item for job in jobs for item in deployed.items(f"JOB#{job}")]
    return sum(str(item["sk"]["S"]).startswith("E#") for item in found) >= least


def _killed(worker: psutil.Process) -> bool:
    try:
        worker.kill()
    except psutil.NoSuchProcess:
        return False
    return True


# --- two at once, twice, late ---------------------------------------------------------------------


@dataclass
class Doubled:
    """Jobs of which nobody has heard yet, and what they say themselves of their runs."""

    deployed: Deployment
    ada: Client
    ran: Path
    jobs: list[str]

    def each_ran_once(self) -> None:
        """Each ends well: one Start, one object, one run, by its own word and by its record."""
        for job in self.jobs:
            status = self.deployed.looked_until(
                self.ada, job, "settles", lambda status: status.settled_at is not None
            )
            assert (status.outcome, status.submission) == (Outcome.SUCCEEDED, 1)
            assert (status.attempt, status.escalations) == (1, ())
            said = Counter(one.get("fact") for one in self.deployed.facts(self.ada, job))
            assert said["attempt"] == 1, said
            assert self.deployed.objects(job) == ["1.1"]
        assert Counter(self.ran.read_text().split()) == dict.fromkeys(self.jobs, 1)


@pytest.fixture
def unheard(deployed: Deployment, ada: Client, tmp_path: Path) -> Doubled:
    """Jobs that the stream told nobody of: it is stopped while they are submitted."""
    ran = tmp_path / "ran"
    script = f'echo "$DISPATCH_JOB_ID" >> {ran}'
    deployed.stop_functions("Supervisor")
    jobs = [deployed.submit(ada, script, f"doubled-{k}") for k in range(4)]
    deployed.let_run("Supervisor")
    return Doubled(deployed, ada, ran, jobs)


def test_two_ticks_at_once_start_nothing_twice(deployed: Deployment, unheard: Doubled) -> None:
    """Each queues its own message, and two workers look at the same jobs at the same time."""
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            ticks = [pool.submit(deployed.tick) for _ in range(2)]
            looks = [pool.submit(deployed.look) for _ in range(2)]
            assert [one.result()["answer"] for one in ticks] == [{"queued": 1}] * 2
            assert [one.result()["failed"] for one in looks] == [None] * 2
    deployed.until_idle()
    unheard.each_ran_once()


def test_a_tick_delivered_twice_starts_nothing_twice(
    deployed: Deployment, unheard: Doubled
) -> None:
    """The same tick again, and each message that it queued again: both are at-least-once."""
    sqs, work = deployed.engine.client("sqs"), deployed.outputs["WorkQueueUrl"]
    message = json.dumps({"cluster": CLUSTER})
    for _ in range(3):
        for _ in range(2):
            assert deployed.tick() == {"failed": None, "answer": {"queued": 1}}
            sqs.send_message(QueueUrl=work, MessageBody=message)
        deployed.until_idle()
    unheard.each_ran_once()


def test_a_stream_record_delivered_late_and_again_changes_nothing(
    deployed: Deployment, ada: Client, heard: Heard
) -> None:
    job = deployed.submit(ada, "sleep 600", "late")
    deployed.looked_until(ada, job, "runs", lambda status: status.run == 1)
    ada.intend(job, IntentKind.CANCEL)
    deployed.looked_until(ada, job, "settles", lambda status: status.settled_at is not None)
    before = ada.record(job)
    outcome = told(heard, job, "dispatch.outcome.v1")["detail"]
    late = [
        stream_record(item, number)
        for number, item in enumerate(deployed.items(f"JOB#{job}"))
        if item.get("schema", {}).get("S") in ("dispatch.header.v1", "dispatch.control.v1")
    ]
    assert len(late) == 2
    for _ in range(2):
        answer = deployed.invoke("Supervisor", {"Records": late})
        assert answer == {"failed": None, "answer": {"queued": 1}}
    assert deployed.invoke("Events", {"Records": late})["failed"] is None
    deployed.look(jobs=[job])
    assert ada.record(job) == before

    def again() -> list[dict[str, Any]] | None:
        told = [one["detail"] for one in heard() if one["detail"].get("job_id") == job]
        outcomes = [one for one in told if "outcome" in one["id"]]
        return outcomes if len(outcomes) > 1 else None

    # At least once, so whoever listens goes by the id; the word is the same each time.
    assert all(one == outcome for one in until("the event again", again))


def _says(line: dict[str, Any]) -> bool:
    return line.get("signal") == "own_outage"


def _counts(line: dict[str, Any]) -> bool:
    return "_aws" in line and "OwnOutage" in line


def _looked(deployed: Deployment, cluster: str) -> bool:
    return bool(deployed.look(cluster=cluster)["answer"] == {"batchItemFailures": []})


def test_when_no_cluster_answers_it_is_called_our_own_outage_and_nothing_is_concluded(
    deployed: Deployment, ada: Client
) -> None:
    job = deployed.submit(ada, "sleep 600", "through-an-outage")
    deployed.looked_until(ada, job, "runs", lambda status: status.state == "running")
    before = ada.record(job)
    # No spool can be made there, as where a network or a key is gone.
    silent = dict.fromkeys(("here", "there"), "/proc/none")
    deployed.configure(silent)
    try:
        for name in silent:
            # The engine notices by a failed call that a worker is no more.
            until(f"{name} is looked at", partial(_looked, deployed, name))
        until("a tick", lambda: deployed.tick()["answer"] == {"queued": 2})
        until("it is said", lambda: any(map(_says, deployed.logged("Supervisor"))))
        until("it is counted", lambda: any(map(_counts, deployed.logged("Supervisor"))))
        assert ada.record(job).entries == before.entries
    finally:
        deployed.configure({CLUSTER: str(deployed.spool)})
    ada.intend(job, IntentKind.CANCEL)
    over = deployed.looked_until(ada, job, "settles", lambda status: bool(status.settled_at))
    assert (over.outcome, over.submission) == (Outcome.CANCELLED, 1)


def stream_record(item: dict[str, Any], number: int) -> dict[str, Any]:
    """An item as the stream showed it when it was put."""
    return {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "Keys": {"pk": item["pk"], "sk": item["sk"]},
            "NewImage": item,
            "SequenceNumber": str(number),
            "StreamViewType": "NEW_IMAGE",
        },
    }
