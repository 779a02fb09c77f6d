"""What jobs used and what was lost, in exact figures from records."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.narrate.usage import Amount, By, Report, Row, usage
from dispatch.record.header import Spec
from dispatch.record.names import Cause, ObjectState
from tests.narrate.written import Written, at

HOUR = 3600.0
DAY = (at(0), at(24 * HOUR))


def record(**more: Any) -> Written:
    """A record of a job on two nodes with four GPUs each, unless it is another's."""
    fields: dict[str, Any] = {
        "name": "train",
        "nodes": 2,
        "gpus_per_node": 4,
        "labels": {"team": "vision"},
    }
    return Written(spec=Spec(command=("x",), **(fields | more)))


def ran(w: Written, span: tuple[float, float], n: int, state: ObjectState, **more: Any) -> Written:
    """One run of submission `n`, seconds since the job was created."""
    began, ended = span
    w.attempt(began - 2, n).started(began - 1, n).released(began - 1, n)
    w.saw(began + 1, w.sighting(ObjectState.RUNNING, n, started_at=at(began)))
    return w.ends(ended + 1, state, n, **more)


def preempted_then_well() -> Job:
    """An hour lost to a preemption, then two that count."""
    w = record().authorized(1)
    ran(w, (HOUR, 2 * HOUR), 1, ObjectState.FAILED, cause=Cause.PREEMPTED)
    w.authorized(2 * HOUR + 60, 2, "rec:1.1", cause=Cause.PREEMPTED)
    ran(w, (3 * HOUR, 5 * HOUR), 2, ObjectState.SUCCEEDED)
    return fold(w.view, at(6 * HOUR))


def counted(*jobs: Job, span: tuple[datetime, datetime] = DAY, **more: object) -> Report:
    by = more.pop("by", By.OWNER)
    label = more.pop("label", "")
    assert isinstance(by, By)
    assert isinstance(label, str)
    return usage(jobs, span, at(24 * HOUR), by=by, label=label)


def test_a_run_counts_its_hours_times_its_nodes_and_their_gpus() -> None:
    report = counted(preempted_then_well())
    used, lost = Amount(2, 6.0, 24.0), Amount(1, 2.0, 8.0)
    assert report.rows == (Row("local:ada", 1, used, lost),)
    assert report.total == Row("all", 1, used, lost)
    assert report.lost == {"preempted": lost}
    assert report.by_sight == 0


def test_only_what_lies_in_the_span_counts() -> None:
    job = preempted_then_well()
    early = counted(job, span=(at(0), at(1.5 * HOUR)))
    assert (early.total.used, early.total.lost) == (Amount(1, 1.0, 4.0), Amount(1, 1.0, 4.0))
    across = counted(job, span=(at(4 * HOUR), at(24 * HOUR)))
    assert (across.total.used, across.total.lost) == (Amount(1, 2.0, 8.0), Amount())
    assert counted(job, span=(at(10 * HOUR), at(11 * HOUR))).rows == ()


def test_parts_of_a_span_add_up_to_the_whole() -> None:
    job = preempted_then_well()
    cuts = [at(hours * HOUR) for hours in (0, 1.25, 3.5, 24)]
    parts = [counted(job, span=span) for span in pairwise(cuts)]
    assert sum(part.total.used.node_hours for part in parts) == pytest.approx(6.0)
    assert sum(part.total.lost.gpu_hours for part in parts) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("by", "label", "names"),
    [
        (By.OWNER, "", ["local:ada"]),
        (By.CLUSTER, "", ["local"]),
        (By.CAUSE, "", ["succeeded", "preempted"]),
        (By.LABEL, "team", ["vision"]),
        (By.LABEL, "project", ["(no project)"]),
    ],
)
def test_it_is_counted_by_owner_cluster_cause_or_label(
    by: By, label: str, names: list[str]
) -> None:
    assert [row.name for row in counted(preempted_then_well(), by=by, label=label).rows] == names


def test_by_cause_the_rows_are_the_ends_of_runs() -> None:
    well, lost = counted(preempted_then_well(), by=By.CAUSE).rows
    assert (well.used, well.lost) == (Amount(1, 4.0, 16.0), Amount())
    assert (lost.used, lost.lost) == (Amount(1, 2.0, 8.0), Amount(1, 2.0, 8.0))


def test_a_run_that_goes_on_counts_to_now_and_isn_t_lost() -> None:
    w = record().authorized(1)
    w.attempt(HOUR - 2).started(HOUR - 1).released(HOUR - 1)
    w.saw(HOUR + 1, w.sighting(ObjectState.RUNNING, started_at=at(HOUR)))
    job = fold(w.view, at(2 * HOUR))
    report = usage([job], DAY, at(4 * HOUR), by=By.CAUSE)
    assert report.rows == (Row("running", 1, Amount(1, 6.0, 24.0), Amount()),)


def test_where_the_scheduler_told_no_times_the_sight_counts_and_that_is_said() -> None:
    w = record().authorized(1)
    w.attempt(HOUR - 2).started(HOUR - 1).released(HOUR - 1)
    w.saw(HOUR, w.sighting(ObjectState.RUNNING))
    w.saw(3 * HOUR, w.sighting(ObjectState.FAILED, cause=Cause.APP_ERROR))
    report = counted(fold(w.view, at(4 * HOUR)))
    assert report.by_sight == 1
    assert report.total.used.node_hours == pytest.approx(4.0, abs=0.01)


def test_what_never_ran_counts_for_nothing() -> None:
    w = record().authorized(1).attempt(2).started(3).released(3)
    w.saw(5, w.sighting(ObjectState.PENDING, cause=Cause.NO_CAPACITY))
    assert counted(fold(w.view, at(HOUR))).rows == ()


def test_the_same_object_run_again_in_place_counts_each_of_its_runs() -> None:
    w = record().authorized(1)
    ran(w, (HOUR, 2 * HOUR), 1, ObjectState.FAILED, cause=Cause.PREEMPTED)
    again = w.sighting(ObjectState.RUNNING, restarts=1, started_at=at(3 * HOUR))
    w.saw(3 * HOUR + 1, again)
    w.ends(4 * HOUR + 1, ObjectState.SUCCEEDED, restarts=1)
    report = counted(fold(w.view, at(5 * HOUR)), by=By.CAUSE)
    assert {row.name: row.used.node_hours for row in report.rows} == {
        "preempted": 2.0,
        "succeeded": 2.0,
    }


def test_many_jobs_are_added_up_the_largest_use_first() -> None:
    short = record(nodes=1, gpus_per_node=0, labels={"team": "speech"}).authorized(1)
    ran(short, (HOUR, 2 * HOUR), 1, ObjectState.SUCCEEDED)
    report = counted(
        fold(short.view, at(3 * HOUR)), preempted_then_well(), by=By.LABEL, label="team"
    )
    assert [row.name for row in report.rows] == ["vision", "speech"]
    assert report.total.used == Amount(3, 7.0, 24.0)
