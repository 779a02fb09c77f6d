"""A stack with archives: what is removed is archived first, by a role that can do no more.

The engine speaks plain HTTP, so the bucket's policy refuses everybody: that is the first test, and
the others take the policy away.
"""

from collections.abc import Iterator

import pytest

from dispatch.client import Client
from dispatch.core.fold import fold
from dispatch.errors import JobTombstoned
from dispatch.record.export import import_text
from dispatch.wiring import utc_now
from tests.real.rehearsal.conftest import end_jobs
from tests.real.rehearsal.deployment import Deployment, deploy
from tests.real.rehearsal.engine import Engine

REFUSED = {"AccessDenied", "AccessDeniedException", "403", "Forbidden"}


@pytest.fixture(scope="module")
def archiving(engine: Engine) -> Iterator[Deployment]:
    made = deploy(
        engine,
        "archiving",
        Archive="on",
        ArchiveAfterDays="90",
        ClustersParameter="/archiving/clusters",
        TickState="DISABLED",
    )
    yield made
    end_jobs(made)


@pytest.fixture(scope="module")
def reached(archiving: Deployment) -> Deployment:
    """The stack whose bucket answers without TLS."""
    bucket = archiving.outputs["ArchiveBucketName"]
    archiving.engine.client("s3").delete_bucket_policy(Bucket=bucket)
    return archiving


@pytest.fixture(scope="module")
def person(archiving: Deployment) -> Iterator[Client]:
    key = archiving.person("archivist", "execute-api:Invoke")
    with archiving.client(archiving.signing(key)) as client:
        yield client


def test_without_tls_nothing_is_archived_and_so_nothing_is_removed(
    archiving: Deployment, person: Client
) -> None:
    job = archiving.submit(person, "true", "stays")
    archiving.looked_until(person, job, "settles", lambda status: status.settled_at is not None)
    person.tombstone(job)
    ran = archiving.invoke("Retention", {})
    assert ran["failed"] is not None
    assert "explicit deny" in ran["answer"]["errorMessage"]
    assert len(archiving.items(f"JOB#{job}")) > 3


def test_what_is_tombstoned_is_archived_before_it_is_removed(
    reached: Deployment, person: Client
) -> None:
    job = reached.submit(person, "true", "kept-for-ever")
    reached.looked_until(person, job, "settles", lambda status: status.settled_at is not None)
    text = person.export(job)
    told = fold(person.record(job), utc_now())
    assert reached.invoke("Retention", {})["answer"]["complete"], "of what was marked before"
    person.tombstone(job)
    ran = reached.invoke("Retention", {})
    assert ran["failed"] is None, ran
    assert ran["answer"] == {"removed": 1, "archived": 0, "complete": True}
    body = reached.engine.client("s3").get_object(
        Bucket=reached.outputs["ArchiveBucketName"], Key=f"records/{job}.jsonl"
    )["Body"]
    archived = body.read().decode()
    assert archived == text
    assert fold(import_text(archived), utc_now()) == told
    assert [item["sk"]["S"] for item in reached.items(f"JOB#{job}")] == ["HEAD"]
    with pytest.raises(JobTombstoned):
        person.get(job)
    again = reached.invoke("Retention", {})
    assert again["answer"] == {"removed": 0, "archived": 0, "complete": True}


def test_retention_may_write_and_read_archives_and_nothing_else_in_the_bucket(
    reached: Deployment,
) -> None:
    bucket = reached.outputs["ArchiveBucketName"]
    tried = reached.probe("Retention")
    one = {"Bucket": bucket, "Key": "records/j1.jsonl"}
    assert tried("s3", "put_object", one) == "done"
    assert tried("s3", "get_object", one) == "done"
    for call, asked in {
        "delete_object": one,
        "put_object": {"Bucket": bucket, "Key": "elsewhere"},
        "list_objects_v2": {"Bucket": bucket},
        "put_bucket_policy": {"Bucket": bucket, "Policy": "{}"},
        "delete_bucket": {"Bucket": bucket},
    }.items():
        assert tried("s3", call, asked) in REFUSED, call


@pytest.mark.parametrize("function", ["Intents", "Supervisor", "Events"])
def test_no_other_role_touches_an_archive(reached: Deployment, function: str) -> None:
    tried = reached.probe(function)
    one = {"Bucket": reached.outputs["ArchiveBucketName"], "Key": "records/j1.jsonl"}
    for call in ("put_object", "get_object", "delete_object"):
        assert tried("s3", call, one) in REFUSED, call
