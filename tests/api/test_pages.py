"""What the pages about access, metrics and notifications say is what there is."""

import json
import re

import pytest

from dispatch.access import Caller, Wanted, rights_of
from dispatch.clusters import parse_clusters
from dispatch.event_details import DETAILS
from dispatch.signals import Signal
from tests.architecture.sources import ROOT

DOCS = ROOT / "docs"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_rules_on_the_page_are_rules_and_do_what_it_says() -> None:
    text = (DOCS / "reference/access.md").read_text()
    ((_, example),) = FENCED.findall(text)
    access = parse_clusters(example).access
    ada = Caller("oidc:https://login.example.com#ada", {"groups": frozenset({"vision"})})
    may = rights_of(access, ada)
    assert may.refuses_submit(Wanted("hpc", ("gpu-large",), "vision")) is None
    assert may.refuses_submit(Wanted("hpc", ("cpu",))) is not None
    assert not may.admin


@pytest.mark.parametrize("signal", Signal)
def test_every_signal_and_its_metric_are_documented(signal: Signal) -> None:
    text = (DOCS / "reference/metrics.md").read_text()
    assert f"| `{signal.value}` |" in text
    row = next(line for line in text.splitlines() if line.startswith(f"| `{signal.value}` |"))
    assert f"`{signal.metric}`" in row or "in the API's log" in row


def test_the_recipes_ask_for_events_and_fields_that_there_are() -> None:
    text = (DOCS / "how-to/notifications.md").read_text()
    named = set(re.findall(r"dispatch\.\w+\.v\d+", text))
    assert named
    assert named <= set(DETAILS)
    fields = {name for model in DETAILS.values() for name in model.model_fields}
    assert set(re.findall(r"\$\.detail\.(\w+)", text)) <= fields


def test_the_brake_on_the_page_is_one() -> None:
    text = (DOCS / "reference/api.md").read_text()
    blocks = [json.loads(one) for kind, one in FENCED.findall(text) if kind == "json"]
    (cluster,) = [one for one in blocks if "brakes" in one]
    document = {"schema": "dispatch.clusters.v1", "clusters": [cluster]}
    assert parse_clusters(json.dumps(document)).clusters[0].brakes.paused
