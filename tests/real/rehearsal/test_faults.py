"""What goes wrong in a cloud: poison, deaths, doubles, late deliveries. Nothing changes by it."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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

pytestmark = pytest.mark.usefixtures("by_hand")

POISON = '{"cluster": "here", "jobs": [], "surprise": true}'


def test_a_poison_message_ends_in_the_dead_letter_queue_and_nothing_else_is_lost(
    deployed: Deployment, ada: Client
) -> None:
    sqs = deployed.engine.client("sqs")
    work, dead = deployed.outputs["WorkQueueUrl"], deployed.outputs["DeadQueueUrl"]
    # As deployed it takes an hour until the fifth try has failed.
    sqs.set_queue_attributes(QueueUrl=work, Attributes={"VisibilityTimeout": "1"})
    try:
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

        def empty() -> bool:
            told = sqs.get_queue_attributes(QueueUrl=work, AttributeNames=["All"])["Attributes"]
            names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
            return all(told[name] == "0" for name in names)

        until("the work queue is empty", empty)
        assert "Messages" not in sqs.receive_message(QueueUrl=dead)
    finally:
        sqs.set_queue_attributes(QueueUrl=work, Attributes={"VisibilityTimeout": "720"})


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
    with ThreadPoolExecutor(1) as pool:
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


def test_two_looks_at_once_and_ticks_delivered_twice_start_nothing_twice(
    deployed: Deployment, ada: Client, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    script = f'echo "$DISPATCH_JOB_ID" >> {ran}'
    jobs = [deployed.submit(ada, script, f"doubled-{k}") for k in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            answers = [pool.submit(deployed.look) for _ in range(3)]
            answers.append(pool.submit(deployed.tick))
            answers.append(pool.submit(deployed.tick))
            assert [one.result()["failed"] for one in answers] == [None] * 5
    for job in jobs:
        status = deployed.looked_until(ada, job, "ends", lambda status: status.outcome is not None)
        assert (status.outcome, status.submission) == (Outcome.SUCCEEDED, 1)
    assert Counter(ran.read_text().split()) == dict.fromkeys(jobs, 1)


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
        lines = deployed.logged("Supervisor")
        assert "own_outage" in {one.get("signal") for one in lines}
        assert any("OwnOutage" in one for one in lines if "_aws" in one)
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
