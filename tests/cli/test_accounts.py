"""The usage report as people and machines are given it."""

from __future__ import annotations

import json

from dispatch.record.codec import envelope
from dispatch.record.fact import Settled
from tests.cli.conftest import Shell
from tests.cli.test_jobs import submitted
from tests.functions.world import START


def test_what_jobs_used_is_reported_from_their_records(shell: Shell) -> None:
    job = submitted(shell, "-l", "team=a", "--gpus", "2")
    shell("watch", job)
    done = shell(
        "usage", "--from", "2026-11-01", "--now", "2026-12-01T00:00:00Z", "--by", "label:team"
    )
    assert done.exit_code == 0
    assert "TEAM  JOBS  RUNS  NODE-HOURS  GPU-HOURS" in done.stdout
    assert any(line.startswith("a     1     1") for line in done.stdout.splitlines())
    told = json.loads(
        shell("usage", "--from", "2026-11-01", "--now", "2026-12-01T00:00:00Z", "--json").stdout
    )
    assert told["report"]["total"]["used"]["runs"] == 1
    assert told["left_out"] == []


def test_what_lies_outside_isn_t_counted(shell: Shell) -> None:
    shell("watch", submitted(shell))
    done = shell("usage", "--from", "2026-01-01", "--to", "2026-02-01")
    assert "nothing ran" in done.stdout


def test_records_that_can_t_be_counted_are_named(shell: Shell) -> None:
    gone = submitted(shell)
    shell("watch", gone)
    shell("tombstone", gone)
    torn = submitted(shell)
    wrong = Settled(at=START, by="x", taken_at=START)
    shell.world.store.commit(torn, 0, [envelope(wrong)._replace(token="t")])
    done = shell("usage", "--from", "2026-11-01", "--now", "2026-12-01T00:00:00Z")
    assert "2 not counted" in done.stderr


def test_a_span_or_a_way_to_count_that_is_none_is_refused(shell: Shell) -> None:
    for words in (
        ["--by", "colour"],
        ["--by", "label:"],
        ["--from", "yesterday"],
        ["--from", "2026-12-01", "--to", "2026-11-01"],
    ):
        done = shell("usage", *words)
        assert done.exit_code == 1
        assert "error: field '--" in done.stderr


def test_little_isn_t_shown_as_nothing(shell: Shell) -> None:
    shell("watch", submitted(shell))
    done = shell("usage", "--from", "2026-11-01", "--now", "2026-12-01T00:00:00Z")
    (total,) = [line.split() for line in done.stdout.splitlines() if line.startswith("all")]
    assert total[1:] == ["1", "1", "<0.01", "0.00", "0.00", "0.00"]
