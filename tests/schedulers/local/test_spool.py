"""The spool's folders: what can't be read is never absent, what is forgotten is never reused."""

import json
import os
import shutil
from pathlib import Path

import pytest

from dispatch.errors import CallRefused, CallUnknown, SchedulerUnavailable
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local.adapter import LocalScheduler
from dispatch.schedulers.scheduler import Started, StartRefused, Target
from tests.conformance.scheduler.world import Work
from tests.schedulers.local.play import Local
from tests.schedulers.local.world import LocalWorld


@pytest.mark.parametrize("file", ["order.json", "life.json"])
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "\xff", '{"schema": "dispatch.local.life.v2"}', None]
)
def test_a_folder_that_cant_be_read_makes_the_find_incomplete(
    local: Local, file: str, text: str | None
) -> None:
    # F06: an error of the question is no answer.
    good, bad = local.start(Work.LAST), local.start(Work.LAST, a=2)
    path = local.world.folder(bad.ref) / file
    whole = path.read_text()
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="latin-1")
    found = local.scheduler.find()
    assert not found.complete
    assert "jobconformance1.1.2" in (found.error or "")
    assert [s.ref for s in found.by_job["jobconformance1"]] == [good.ref]
    path.write_text(whole)
    assert set(local.refs()) == {good.ref, bad.ref}


def test_a_field_of_another_build_makes_the_find_incomplete(local: Local) -> None:
    target = local.start(Work.LAST)
    path = local.world.folder(target.ref) / "life.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "added_later": 1}))
    assert not local.scheduler.find().complete


def test_a_folder_under_another_name_makes_the_find_incomplete(local: Local) -> None:
    target = local.start(Work.LAST)
    copy = local.world.folder(target.ref).with_name("jobconformance1.9.9")
    copy.mkdir()
    for name in ("order.json", "life.json", "lock", "runner.lock"):
        shutil.copy(local.world.folder(target.ref) / name, copy / name)
    found = local.scheduler.find()
    assert not found.complete
    assert "jobconformance1.9.9" in (found.error or "")


def test_calls_on_a_folder_that_cant_be_read_are_unknown(local: Local) -> None:
    target = local.start(Work.LAST)
    path = local.world.folder(target.ref) / "life.json"
    whole = path.read_text()
    path.write_text("{")
    for call in (local.scheduler.stop, local.scheduler.hold, local.scheduler.release):
        with pytest.raises(CallUnknown):
            call(target)
    path.write_text(whole)


def test_start_of_a_tag_whose_folder_cant_be_read_is_unknown(local: Local) -> None:
    target = local.start(Work.LAST)
    path = local.world.folder(target.ref) / "order.json"
    whole = path.read_text()
    path.write_text("{")
    with pytest.raises(CallUnknown):
        local.start(Work.LAST)
    path.write_text(whole)
    assert local.refs() == [target.ref]


def test_ended_objects_are_moved_away_after_the_retention_and_not_before(local: Local) -> None:
    target, _ = local.end(Work.SUCCEED)
    local.world.advance(local.world.retention_s - 60)
    assert local.look(target) is not None
    local.world.advance(61)
    assert local.look(target) is None
    assert not local.world.folder(target.ref).exists()
    assert (local.world.spool_dir / "forgotten" / "jobconformance1.1.1").is_dir()


def test_neither_what_waits_nor_what_runs_is_ever_forgotten(local: Local) -> None:
    waits, runs = local.start(Work.LAST), local.run(Work.LAST, a=2)
    local.world.advance(100 * local.world.retention_s)
    assert set(local.refs()) == {waits.ref, runs.ref}


def test_a_tag_that_was_forgotten_is_not_started_again(local: Local) -> None:
    target, _ = local.end(Work.SUCCEED)
    local.world.forget(target.ref)
    assert local.look(target) is None
    again = local.scheduler.start(local.order(Work.SUCCEED))
    assert isinstance(again, Started)
    assert again.ref == target.ref
    assert "forgotten" in again.notes[0]
    assert local.whole().by_job == {}


def test_a_forgotten_name_stays_taken_for_others(local: Local) -> None:
    target, _ = local.end(Work.SUCCEED)
    local.world.forget(target.ref)
    assert local.look(target) is None
    refused = local.scheduler.start(local.order(Work.FAIL))
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.NAME_TAKEN


def test_the_output_of_what_was_forgotten_can_still_be_read(local: Local) -> None:
    target, _ = local.end(Work.FAIL)
    whole = local.text(target)
    local.world.forget(target.ref)
    assert local.look(target) is None
    assert local.text(target) == whole


def test_a_forgotten_object_cant_be_called_upon(local: Local) -> None:
    target, _ = local.end(Work.FAIL)
    local.world.forget(target.ref)
    assert local.look(target) is None
    with pytest.raises(CallRefused):
        local.scheduler.requeue(target)


def test_a_spool_in_anothers_place_is_another_cluster(local: Local) -> None:
    local.start(Work.LAST)
    before = local.whole().identity
    away = local.world.spool_dir.rename(local.world.spool_dir.with_name("away"))
    with pytest.raises(SchedulerUnavailable):
        local.scheduler.find()
    other = LocalScheduler(local.world.spool_dir, "here", local.world.clock).find()
    assert other.identity != before
    shutil.rmtree(local.world.spool_dir)
    away.rename(local.world.spool_dir)
    assert local.whole().identity == before


def test_a_run_ends_in_its_folder_even_if_the_spool_was_moved_meanwhile(local: Local) -> None:
    target = local.shell("echo ready; while [ ! -e gate ]; do sleep 0.02; done; exit 4")
    local.wait_for_text(target, "ready")
    away = local.world.spool_dir.rename(local.world.spool_dir.with_name("away"))
    moved = away / "objects" / target.ref.split("/")[1]
    (moved / "work" / "gate").touch()
    local.world.until(
        lambda: json.loads((moved / "life.json").read_text())["phase"] == "failed", "it has ended"
    )
    away.rename(local.world.spool_dir)
    assert local.see(target).exit_code == 4


def test_a_ref_of_another_cluster_is_refused_and_never_taken_for_absent(local: Local) -> None:
    # F16
    target = local.start(Work.LAST)
    other = Target(target.ref.replace("here/", "there/"), target.tag)
    with pytest.raises(CallRefused, match="isn't of cluster here"):
        local.scheduler.stop(other)


@pytest.mark.parametrize(
    "ref", ["here/../../etc/passwd", "here", "", "here/jobconformance1.1.1/x y"]
)
def test_a_ref_that_is_none_leads_nowhere(local: Local, ref: str) -> None:
    target = local.start(Work.LAST)
    local.scheduler.stop(Target(ref, target.tag))
    assert local.see(target).state is ObjectState.PENDING


def test_two_clusters_in_two_spools_know_nothing_of_each_other(
    local: Local, unconfined: LocalWorld
) -> None:
    local.start(Work.LAST)
    assert unconfined.scheduler.find().by_job == {}


def test_what_a_start_that_was_cut_short_left_behind_is_cleared_later(local: Local) -> None:
    fresh, old = (local.world.spool_dir / "new" / name for name in ("fresh", "old"))
    fresh.mkdir()
    old.mkdir()
    os.utime(old, (1, 1))
    local.world.another()
    assert fresh.exists()
    assert not old.exists()


def test_a_thing_that_is_no_objects_folder_is_left_alone(local: Local) -> None:
    stray: Path = local.world.spool_dir / "objects" / "lost+found"
    stray.mkdir()
    assert local.whole().by_job == {}
    assert stray.exists()


def test_a_runner_that_cant_be_started_leaves_a_word(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = local.start(Work.SUCCEED)
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    local.scheduler.release(target)
    seen = local.see(target)
    assert seen.state is ObjectState.PENDING
    assert "runner.log" in (seen.reason or "")
    monkeypatch.undo()
    assert local.wait_for_end(target).state is ObjectState.SUCCEEDED
