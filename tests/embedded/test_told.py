"""Each event is a line for people, whatever it is about."""

import json
from typing import Any

import pytest

from dispatch.event_details import DETAILS
from dispatch.events import Event
from embedded.stack import _told
from tests.functions.world import START

SAYS: dict[str, tuple[dict[str, Any], str]] = {
    "dispatch.outcome.v1": ({"outcome": "failed", "cause": "lost"}, "outcome failed; lost"),
    "dispatch.recovery_hold.v1": ({"cause": "lost"}, "recovery hold lost"),
    "dispatch.escalation.v1": ({"code": "foreign_object"}, "escalation foreign_object"),
    "dispatch.settled.v1": ({"outcome": "succeeded"}, "settled succeeded"),
}


@pytest.mark.parametrize("detail_type", SAYS)
def test_an_event_about_a_job_names_it(detail_type: str) -> None:
    fields, said = SAYS[detail_type]
    detail = json.dumps({"job_id": "jabcdefgh", "name": "train", **fields})
    line = _told(Event("id", detail_type, START, detail))
    assert line == f"12:00:00 job jabcdefgh train: {said}"


def test_an_event_about_a_cluster_names_that() -> None:
    detail = json.dumps({"cluster": "hpc", "kind": "unreachable", "state": "over"})
    line = _told(Event("id", "dispatch.cluster_trouble.v1", START, detail))
    assert line == "12:00:00 cluster hpc: cluster trouble unreachable; over"


def test_every_detail_type_is_told() -> None:
    assert {*SAYS, "dispatch.cluster_trouble.v1"} == set(DETAILS)
