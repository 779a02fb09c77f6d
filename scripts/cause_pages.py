"""A page for each cause: what it means, how it looks, what follows, what helps."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from dispatch.clusters import DEFAULT_PLAN, Cluster
from dispatch.narrate.cures import CURES, Cure
from dispatch.narrate.words import CAUSE_WORDS
from dispatch.record.header import Rule
from dispatch.record.names import Action, Cause
from dispatch.schedulers.eks import states
from scripts.writing import DOCS, console, head, listed, notes, numbered, sentence, wrapped

_INTRODUCTION = """Why a run ended, or waits. Two causes that a person would treat differently
are two names. `dispatch why JOB` shows the cause in brackets, with the scheduler's own words
beside it; a plan says what follows for each (see [job files](../job-file.md)). `dispatch
explain` reads any raw answer of Slurm or Kubernetes by the same tables as supervision does, and
names the cause."""

WHEN = {
    "ends": "a run ended so",
    "waits": "what was submitted waits so",
    "refused": "a start was refused so",
    "asks": "Dispatch asks a person because of it",
    "decided": "somebody decided so",
}

_READ = (
    ("pod", states._POD_REASONS),
    ("container", states._CONTAINER_REASONS),
    ("`DisruptionTarget`", states._DISRUPTIONS),
    ("kubelet", states._BY_KUBELET),
    ("waiting container", states._WAITING),
    ("event", states.POD_EVENTS),
)
"""Where Kubernetes gives a reason, and what each is read as."""


def pages() -> dict[str, str]:
    """Return the pages of the causes by their path under docs, the index among them."""
    told = notes("causes")
    met = incidents()
    found = {"reference/causes/index.md": _index(told)}
    for cause in Cause:
        text = _page(cause, told[cause], met[cause])
        found[f"reference/causes/{cause}.md"] = text
    return found


def _index(told: Mapping[str, Mapping[str, Any]]) -> str:
    lines = head("Causes", _INTRODUCTION)
    lines += ["| cause | it | when | without a plan |", "|---|---|---|---|"]
    for cause in Cause:
        when = told[cause]["when"]
        rule = rule_of(cause).action if _is_answered(when) else "a person is asked"
        rule = "" if when == ["decided"] else rule
        shown = ", ".join(WHEN[one] for one in when)
        lines.append(f"| [`{cause}`]({cause}.md) | {CAUSE_WORDS[cause]} | {shown} | {rule} |")
    lines += [""]
    lines += wrapped(
        "*Without a plan* is what the plan of a cluster without one of its own does: see"
        " [the clusters' document](../api.md#clusters-document)."
    )
    return "\n".join(lines) + "\n"


def rule_of(cause: Cause) -> Rule:
    """Return the rule for a cause where neither job nor cluster has a plan."""
    return DEFAULT_PLAN.causes.get(cause, DEFAULT_PLAN.default)


def _is_answered(when: list[str]) -> bool:
    """Return whether the plan's rule for the cause can come to be asked."""
    return "ends" in when or "waits" in when


def _page(cause: Cause, told: Mapping[str, Any], met: list[tuple[str, str]]) -> str:
    cure = CURES[cause]
    when = told["when"]
    lines = head(cause, f"It {CAUSE_WORDS[cause]}. {cure.meaning}")
    lines += [*wrapped(f"**When**: {'; or '.join(WHEN[one] for one in when)}."), ""]
    shown = list(_shown(cause, cure, told))
    if shown:
        lines += ["## What the scheduler shows", "", *listed(shown), ""]
    lines += ["## What Dispatch does", "", *wrapped(sentence(told["how"])), ""]
    for paragraph in _follows(cause, when):
        lines += [*wrapped(paragraph), ""]
    if "plan" in told:
        lines += ["A rule for it in a job file:", "", *_plan(cause, told["plan"]), ""]
    lines += ["## See it", "", *console(["dispatch why JOB", *told.get("look", ())]), ""]
    if met:
        lines += ["In a record that you can ask now, without a stack or a network:", ""]
        for name, asked in met:
            lines += [*wrapped(f"“{asked}”"), ""]
            lines += [*console([f"dispatch why docs/incidents/{name}"]), ""]
    lines += ["## What helps", "", *numbered(told.get("cure", (cure.likely,))), ""]
    others = ", ".join(f"[{one}]({one}.md) ({CAUSE_WORDS[Cause(one)]})" for one in told["see"])
    lines += [*wrapped(f"Easily mistaken for it: {others}. All are in [the list](index.md).")]
    return "\n".join(lines) + "\n"


def _shown(cause: Cause, cure: Cure, told: Mapping[str, Any]) -> Iterator[str]:
    """Yield what each scheduler shows, as people and as the adapter's tables say."""
    if cure.slurm not in (None, "nothing") or "slurm" in told:
        yield f"**Slurm**: {_said(cure.slurm, told.get('slurm', ''))}"
    read = [
        f"{where} {', '.join(f'`{one}`' for one, by in table.items() if by is cause)}"
        for where, table in _READ
        if cause in table.values()
    ]
    words = _said(cure.kubernetes, told.get("kubernetes", ""))
    if read:
        words += f" Reasons that are read as this: {'; '.join(read)}."
    if words and cure.kubernetes != "nothing":
        yield f"**Kubernetes**: {words}"
    if "local" in told:
        yield f"**One machine**: {sentence(told['local'])}"


def _said(first: str | None, more: str) -> str:
    return " ".join(sentence(one) for one in (first, more) if one)


def _follows(cause: Cause, when: list[str]) -> Iterator[str]:
    """Yield what the protocol makes of a cause, by when it is met."""
    if _is_answered(when):
        yield (
            f"The plan's rule for `{cause}`, or its `default`, answers"
            " ([row 13](../../explanation/steps.md#13-recover-by-the-plan)). Without a plan of your"
            f" own that rule is: {rule_words(rule_of(cause))}."
        )
    if "waits" in when:
        yield (
            "A wait has no end of its own. With `pending_limit_s` in the plan, the object is taken"
            " back after that many seconds ([row 12b](../../explanation/steps.md#12b-expire)), and"
            " the same rule answers as after a run."
        )
    if "refused" in when and cause is not Cause.NAME_TAKEN:
        retries = Cluster.model_fields["start_retries"].default
        yield (
            f"A refused start is tried again, `start_retries` times ({retries} unless said"
            f" otherwise), `start_backoff_s` apart ({DEFAULT_PLAN.start_backoff_s} s). Then a"
            " person is asked ([row 17](../../explanation/steps.md#17-ask-a-person-about-starts)):"
            " [start_failed](start_failed.md)."
        )


def rule_words(rule: Rule) -> str:
    """Return a rule in words."""
    match rule.action:
        case Action.FAIL:
            return "*fail*, it is the job's outcome"
        case Action.HOLD:
            return "*hold*, a person is asked, and answers by `resubmit`, `give-up` or `cancel`"
        case Action.RESUBMIT | Action.REQUEUE:
            wait = f", {rule.backoff_s} s after the end was seen" if rule.backoff_s else ""
            then = "a person is asked" if rule.after_limit is Action.HOLD else "it fails"
            return f"*{rule.action}*, {rule.limit} times{wait}; after that {then}"


def _plan(cause: Cause, rule: str) -> list[str]:
    return [
        "```yaml",
        "plan:",
        "  default: {action: hold}",
        "  causes:",
        f"    {cause}: {rule}",
        "```",
    ]


_ROW = re.compile(r"^\| (?P<asked>[^|]+) \| \[[^\]]+\]\((?P<file>[^)]+\.jsonl)\)", re.M)


def incidents() -> Mapping[str, list[tuple[str, str]]]:
    """Return the incidents in which each cause is met: the file's name, and the question."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    folder = DOCS / "incidents"
    for row in _ROW.finditer((folder / "index.md").read_text(encoding="utf-8")):
        text = (folder / row["file"]).read_text(encoding="utf-8")
        for cause in sorted(set(_causes(text))):
            found[cause].append((row["file"], row["asked"].strip()))
    return found


def _causes(record: str) -> Iterator[str]:
    """Yield the causes in a record's facts; its header only says what a plan would do."""
    for line in record.splitlines():
        try:
            body = json.loads(line)["body"]
        except (ValueError, KeyError, TypeError):
            continue
        yield from _of(body)


def _of(value: object) -> Iterator[str]:
    match value:
        case {"cause": str(cause), **rest}:
            yield cause
            yield from _of(rest)
        case dict():
            for name, one in value.items():
                if name != "plan":
                    yield from _of(one)
        case list():
            for one in value:
                yield from _of(one)
        case _:
            pass
