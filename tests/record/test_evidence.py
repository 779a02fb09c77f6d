"""What a look at a cluster says, and the part of it that concerns one job (protocol §1.3)."""

from __future__ import annotations

from dispatch.record.evidence import Discovery, Found
from dispatch.record.names import ENDED_STATES, LIVE_STATES, ObjectState
from tests.record.samples import AT, LATER, sighting


def found(complete: bool = True) -> Found:
    return Found(
        cluster="c1",
        identity="uid-1",
        taken_at=AT,
        seen_at=LATER,
        complete=complete,
        by_job={"jabcdefgh": (sighting(),)},
        error=None if complete else "page 2 was lost",
    )


def test_one_find_serves_every_job_with_its_own_part() -> None:
    mine = found().discovery("jabcdefgh")
    assert mine == Discovery(AT, LATER, complete=True, sightings=(sighting(),))
    assert found().discovery("jsomebody").sightings == ()


def test_what_makes_a_find_incomplete_makes_every_part_of_it_incomplete_f06() -> None:
    part = found(complete=False).discovery("jsomebody")
    assert (part.complete, part.error) == (False, "page 2 was lost")


def test_accountings_answer_joins_what_a_look_showed() -> None:
    look = found().discovery("jabcdefgh")
    other = sighting(ObjectState.SUCCEEDED, ref="o2")
    joined = look.with_lookup((other,), frozenset({"o3"})).with_lookup((), frozenset({"1.1"}))
    assert [one.ref for one in joined.sightings] == [sighting().ref, "o2"]
    assert joined.looked_up == {"o3", "1.1"}
    assert (joined.taken_at, joined.complete) == (look.taken_at, True)


def test_what_a_live_look_shows_is_not_replaced_by_accounting() -> None:
    look = found().discovery("jabcdefgh")
    stale = sighting(ObjectState.SUCCEEDED)
    assert look.with_lookup((stale,), frozenset()).sightings == look.sightings


def test_a_state_is_live_or_ended() -> None:
    assert LIVE_STATES.union(ENDED_STATES) == frozenset(ObjectState)
    assert LIVE_STATES.isdisjoint(ENDED_STATES)
    assert ObjectState.GONE in ENDED_STATES
