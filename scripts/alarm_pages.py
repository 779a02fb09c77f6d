"""A page for each alarm of infra/monitoring.yaml: when it goes off, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from scripts.writing import DOCS, console, head, notes, numbered, sentence, wrapped

MONITORING = DOCS.parent / "infra" / "monitoring.yaml"

_INTRODUCTION = """Every alarm goes to the topic `AlarmTopicArn` of the stack's outputs, by mail
too if the stack was given `AlarmEmail`. Its name begins with the stack's, and its description
ends with the address of its page. Escalations of single jobs go there as well."""

_ALL = """Two things hold for all of them. No alarm means that a record is wrong: what isn't
known is recorded as unknown. And nothing has to be repeated by hand: the next tick looks at
every open job again."""

_COMPARED = {
    "GreaterThanOrEqualToThreshold": "at least",
    "LessThanThreshold": "less than",
}
_STATISTIC = {"Sum": "the sum", "Maximum": "the largest value"}


class _Template(yaml.SafeLoader):
    """Reads CloudFormation's own tags as plain values."""


_Template.add_multi_constructor("!", lambda loader, suffix, node: f"{suffix} {node.value}")


def alarms() -> Mapping[str, Mapping[str, Any]]:
    """Return the properties of every alarm of the template, by its name without the stack's."""
    text = MONITORING.read_text(encoding="utf-8")
    read = yaml.load(text, Loader=_Template)  # noqa: S506 - it is a safe one, with tags
    return {
        one["Properties"]["AlarmName"].removeprefix("Sub ${Name}-"): one["Properties"]
        for one in read["Resources"].values()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    }


def pages() -> dict[str, str]:
    """Return the pages of the alarms by their path under docs, the index among them."""
    told = notes("alarms")
    found = {"reference/alarms/index.md": _index()}
    for name, properties in alarms().items():
        found[f"reference/alarms/{name}.md"] = _page(name, properties, told[name])
    return found


def meaning(properties: Mapping[str, Any]) -> str:
    """Return what an alarm's description says, without the address of its page."""
    return str(properties["AlarmDescription"]).split(" (docs/")[0]


def _index() -> str:
    lines = head("Alarms, and what to do about each", _INTRODUCTION)
    lines += [*wrapped(_ALL), "", "| alarm | says |", "|---|---|"]
    lines += [f"| [`{name}`]({name}.md) | {meaning(one)} |" for name, one in alarms().items()]
    lines += [""]
    lines += wrapped(
        "What each is made of stands in [`infra/monitoring.yaml`](../../../infra/monitoring.yaml),"
        " and the signals behind them on [Signals and metrics](../metrics.md)."
    )
    return "\n".join(lines) + "\n"


def _page(name: str, properties: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    lines = head(name, sentence(meaning(properties)))
    lines += [*wrapped(f"**Goes off** when {_when(properties)}."), ""]
    lines += ["## What it means", "", *wrapped(sentence(told["means"])), ""]
    look = [".venv-sam/bin/" + one if one.startswith("sam ") else one for one in told["look"]]
    lines += ["## Look", "", *console(look), ""]
    lines += ["## What helps", "", *numbered(told["cure"]), ""]
    lines += ["## What follows", "", *wrapped(sentence(told["after"])), ""]
    others = ", ".join(f"[{one}]({one}.md)" for one in told["see"])
    lines += wrapped(f"Often seen with it: {others}. All are in [the list](index.md).")
    return "\n".join(lines) + "\n"


def _when(properties: Mapping[str, Any]) -> str:
    """Return when an alarm goes off, in words."""
    periods = int(properties["EvaluationPeriods"])
    points = int(properties.get("DatapointsToAlarm", periods))
    compared = _COMPARED[properties["ComparisonOperator"]]
    threshold = int(properties["Threshold"])
    if properties["MetricName"] == "IteratorAge":
        amount = f"{threshold // 60_000} minutes"
    elif properties["MetricName"] == "ApproximateAgeOfOldestMessage":
        amount = f"{threshold // 60} minutes"
    else:
        amount = str(threshold)
    space = str(properties["Namespace"]).removeprefix("Sub ").replace("${Name}", "STACK")
    if points != periods:
        lasts = f"in {points} of {periods} minutes"
    else:
        lasts = "in a minute" if periods == 1 else f"in each of {periods} minutes"
    missing = "; no figure counts as well" if properties["TreatMissingData"] == "breaching" else ""
    return (
        f"{_STATISTIC[properties['Statistic']]} of `{properties['MetricName']}` in `{space}` is"
        f" {compared} {amount} {lasts}{missing}"
    )
