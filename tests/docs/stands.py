"""Programs that aren't here when the documentation's commands are typed, and who stands in.

A stand-in does nothing but write down what it was asked. Each such call is held against what the
real program takes: botocore's own models for `aws SERVICE OPERATION`, the templates for their
parameters, the Makefile for its targets, and otherwise a list of what is known here to be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import yaml
from botocore import xform_name

from tests.docs.blocks import ROOT

STAND_IN = """#!/bin/sh
{ printf '%s\\036' "NAME" "$@"; printf '\\035'; } >> "$STAND_INS/asked"
if [ -f "$STAND_INS/NAME.answer" ]; then . "$STAND_INS/NAME.answer"; fi
"""

REASONS: Mapping[str, str] = {
    "aws": "there is no account; its service models judge",
    "sam": "it would build and deploy; the rehearsal does",
    "kubectl": "there is no cluster; what it may be asked is listed",
    "scontrol": "there is no Slurm; what it may be asked is listed",
    "sacct": "there is no Slurm; what it may be asked is listed",
    "make": "CI runs the targets; the Makefile says which there are",
    "git": "it would change this repository; what it may be asked is listed",
    "ci": "it is what runs these tests",
    "run.sh": "it installs a Slurm, as root; the real tests run it",
}
"""Every program with a stand-in, and why; `ci` is .ci/run."""

PLACES = {
    "sam": ".venv-sam/bin/sam",
    "ci": ".ci/run",
    "run.sh": "tests/real/slurm/run.sh",
}
"""Where those stand that aren't found by PATH."""


def judge(name: str, words: Sequence[str]) -> None:
    """Hold a call against what the real program takes.

    Raises:
        AssertionError: It wouldn't take that.
    """
    said = f"{name} {' '.join(words)}"
    _JUDGES[name](list(words), said)


# --- aws --------------------------------------------------------------------------------------

_GLOBAL = {"--query", "--output", "--region", "--profile", "--no-cli-pager"}

_OF_THE_CLI: Mapping[tuple[str, str], set[str]] = {
    ("cloudformation", "deploy"): {
        *("--stack-name", "--template-file", "--capabilities", "--parameter-overrides"),
    },
    ("s3", "cp"): {"--recursive"},
}
"""Commands that `aws` has beside the services' own operations, with the options used here."""


@cache
def _service(name: str) -> Any:
    return botocore.session.get_session().get_service_model(name)


def _aws(words: list[str], said: str) -> None:
    service, operation, *rest = words
    if (service, operation) in _OF_THE_CLI:
        options = _options(rest, said)
        assert options.keys() <= _OF_THE_CLI[service, operation] | _GLOBAL, said
        if "--template-file" in options:
            _parameters(ROOT / options["--template-file"][0], options, said)
        return
    model = _service(service)
    if operation == "wait":
        waiter, *rest = rest
        waiters = botocore.session.get_session().get_waiter_model(service).waiter_names
        (operation,) = (
            xform_name(
                botocore.session.get_session().get_waiter_model(service).get_waiter(one).operation,
                "-",
            )
            for one in waiters
            if xform_name(one, "-") == waiter
        )
    named = {xform_name(one, "-"): one for one in model.operation_names}
    assert operation in named, f"{said}: {service} has no {operation}"
    shape = model.operation_model(named[operation]).input_shape
    members = {f"--{xform_name(one, '-')}": of for one, of in shape.members.items()}
    options = _options(rest, said)
    for option, values in options.items():
        if option in _GLOBAL:
            continue
        member = members.get(option)
        if member is None and option.startswith("--no-"):
            member = members.get("--" + option.removeprefix("--no-"))
        assert member is not None, f"{said}: {operation} has no {option}"
        _value(member, values, said)
    missing = {f"--{xform_name(one, '-')}" for one in shape.required_members} - options.keys()
    assert not missing, f"{said}: {operation} needs {missing}"


def _value(shape: Any, values: list[str], said: str) -> None:
    """Hold a value against its shape: a structure's members, an enumeration's words, a number."""
    match shape.type_name:
        case "boolean":
            assert not values, f"{said}: a flag takes no value"
        case "structure":
            for pair in values[0].split(","):
                name, _, value = pair.partition("=")
                assert name in shape.members, f"{said}: no {name} in {shape.name}"
                member = shape.members[name]
                if member.type_name != "boolean":
                    _value(member, [value], said)
        case "integer" | "long":
            assert values[0].isdigit(), f"{said}: {values[0]} is no number"
        case "string" if getattr(shape, "enum", None):
            assert values[0] in shape.enum, f"{said}: {values[0]} isn't one of {shape.enum}"
        case _:
            assert values, f"{said}: a value is missing"


class _Template(yaml.SafeLoader):
    """Reads CloudFormation's own tags as plain values."""


_Template.add_multi_constructor("!", lambda loader, suffix, node: suffix)


@cache
def template(path: Path) -> Any:
    """Return a CloudFormation template."""
    text = path.read_text(encoding="utf-8")
    return yaml.load(text, Loader=_Template)


def _parameters(path: Path, options: Mapping[str, list[str]], said: str) -> None:
    """Hold parameter overrides against a template: its own, and all it can't do without."""
    known = template(path)["Parameters"]
    given = {one.split("=", 1)[0] for one in options.get("--parameter-overrides", [])}
    assert given <= known.keys(), f"{said}: no parameter {given - known.keys()}"
    needed = {name for name, one in known.items() if "Default" not in one}
    assert path.name == "template.yaml" or needed <= given, f"{said}: {needed - given} is needed"


# --- others -----------------------------------------------------------------------------------

_SAM: Mapping[str, set[str]] = {
    "deploy": {"--guided", "--parameter-overrides", "--stack-name"},
    "logs": {"--stack-name", "--name", "--filter", "--start-time"},
    "build": set(),
}


def _sam(words: list[str], said: str) -> None:
    verb, *rest = words
    options = _options(rest, said)
    assert options.keys() <= _SAM[verb], said
    _parameters(ROOT / "template.yaml", options, said)
    resources = template(ROOT / "template.yaml")["Resources"]
    for name in options.get("--name", []):
        assert resources[name]["Type"].endswith("Function"), f"{said}: no function {name}"


_KUBECTL: Mapping[tuple[str, ...], set[str]] = {
    ("get",): {"-n", "-l", "-o", "--field-selector"},
    ("describe",): {"-n"},
    ("delete",): {"-n", "-l", "--cascade"},
    ("patch",): {"-n", "--type", "-p"},
}
_KINDS = {
    *("job", "jobs", "pod", "pods", "node", "nodes", "event", "events", "resourceslices"),
}


def _kubectl(words: list[str], said: str) -> None:
    verb, *rest = words
    options = _options(rest, said, short=True)
    assert options.keys() <= _KUBECTL[verb,], said
    kind = next(word for word in rest if not word.startswith("-"))
    if verb == "patch":
        kind = rest[-1].split("/")[0]
    assert kind in _KINDS, f"{said}: no kind {kind}"
    for selector in options.get("--field-selector", []):
        assert re.fullmatch(r"(reason|involvedObject\.kind)=\w+", selector), said


_SLURM: Mapping[str, set[str]] = {
    "sacct": {"--jobs", "--format", "--duplicates"},
    "scontrol": set(),
}
_SACCT_FIELDS = {
    *("JobID", "State", "ExitCode", "Start", "End", "NodeList", "Reason", "ReqMem", "MaxRSS"),
    *("Timelimit", "Elapsed"),
}


def _slurm(name: str) -> Callable[[list[str], str], None]:
    def judged(words: list[str], said: str) -> None:
        if name == "scontrol":
            assert tuple(words[:2]) in {("show", "job"), ("show", "node")} or words[0] in {
                "release",
                "ping",
            }, said
            return
        options = _options(words, said)
        assert options.keys() <= _SLURM[name], said
        fields = ",".join(options.get("--format", [])).split(",")
        assert set(filter(None, fields)) <= _SACCT_FIELDS, said

    return judged


def _make(words: list[str], said: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.M))
    for word in words:
        name, equals, _ = word.partition("=")
        if equals:
            assert f"$({name})" in makefile, f"{said}: the Makefile reads no {name}"
        else:
            assert word in targets, f"{said}: no target {word}"


_GIT = {
    ("switch", "--detach"),
    ("commit", "-am"),
    ("tag", "--annotate"),
}


def _git(words: list[str], said: str) -> None:
    assert tuple(words[:2]) in _GIT, said


def _a_file(words: list[str], said: str) -> None:
    for word in words:
        if "/" in word:
            assert (ROOT / word).exists(), f"{said}: no {word}"


def _options(words: list[str], said: str, *, short: bool = False) -> dict[str, list[str]]:
    """Return each option with the values behind it."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--") or (short and re.fullmatch(r"-[a-z]", word)):
            name, equals, value = word.partition("=")
            found[name] = [value] if equals else []
        elif name:
            found[name].append(word)
    return found


_JUDGES: Mapping[str, Callable[[list[str], str], None]] = {
    "aws": _aws,
    "sam": _sam,
    "kubectl": _kubectl,
    "scontrol": _slurm("scontrol"),
    "sacct": _slurm("sacct"),
    "make": _make,
    "git": _git,
    "ci": _a_file,
    "run.sh": _a_file,
}
