"""What a released build wrote is read for ever, and means what it meant.

A record of the field has all kinds of entries in their real order, with the head and the key that
a table holds beside them; the goldens have one of each. Frozen: a failure here says that an
upgrade would break records that stand in somebody's table.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dispatch.core.fold import fold
from dispatch.core.project import project
from dispatch.record.codec import decode_entry, decode_header, encode
from dispatch.record.export import export_text, import_text
from dispatch.store import items
from tests.record.released import ALL, DIGESTS, FOLDER, Released

LATER = datetime(2026, 12, 1, tzinfo=UTC)

every = pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.build}-{one.name}")


def test_every_released_file_is_known() -> None:
    assert {path.stem for path in Path(FOLDER).glob("*.json")} == set(DIGESTS)
    assert len(ALL) >= 10


@every
def test_a_released_record_means_what_it_meant(one: Released) -> None:
    job = fold(one.view, LATER)
    status = project(job, None, LATER)
    assert one.means == {
        "desired": job.desired,
        "revision": job.revision,
        "submission": status.submission,
        "attempt": status.attempt,
        "run": status.run,
        "state": status.state,
        "outcome": None if job.ending is None else job.ending.state,
        "cause": status.cause,
        "objects": len(job.objects),
        "settled": job.settled_at is not None,
        "asks": None if job.recovery is None else job.recovery.cause,
        "escalations": sorted(job.escalations),
    }


@every
def test_a_released_record_is_written_today_as_it_was_then(one: Released) -> None:
    view = one.view
    assert encode(decode_header(view.header)) == view.header.body
    for entry in view.entries:
        assert encode(decode_entry(entry)) == entry.body


@every
def test_a_released_record_goes_through_an_export(one: Released) -> None:
    assert import_text(export_text(one.view)).entries == one.view.entries


@every
def test_a_released_head_is_still_a_line_of_both_indexes(one: Released) -> None:
    (head,) = [item for item in one.items if item["sk"]["S"] == "HEAD"]
    line = items.listed_of(head)
    assert (line.job_id, line.cluster) == (one.job_id, "here")
    assert line.revision == one.means["revision"] == one.view.revision
    assert (line.settled_at is not None) == one.means["settled"]
    due = items.due_of(head)
    assert (due.job_id, due.revision) == (one.job_id, line.revision)
