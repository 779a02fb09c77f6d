"""Every command of every page is typed, in the page's order, on a stack that runs.

Each page has a fresh home and its own shell. What `dispatch` is asked, it does; what other
programs are asked that can't be here is written down by a stand-in and judged (stands.py). What a
page shows as an answer must be what was answered. The tutorial has a stack of its own
(test_tutorial.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from scripts.error_pages import kinds
from tests.docs import here
from tests.docs.blocks import Typed, blocks
from tests.docs.forked import Forked
from tests.docs.person import Person
from tests.embedded.running import Running

TUTORIAL = "docs/tutorials/first-job.md"

GOES_ON = ("dispatch ui", "dispatch up --archive")
"""What goes on until Ctrl-C: it is begun, must say where it listens, and is ended."""

NOT_TYPED: Mapping[str, str] = {
    "dispatch up": "it is up: the tutorial's test types it",
}
"""Commands that aren't typed here, and why."""

FAILS: Mapping[tuple[str, str], tuple[int, str]] = {
    ("README.md", "dispatch cancel"): (1, "the job has ended by then, so it has no effect"),
    ("docs/how-to/fence-checkpoints.md", "DISPATCH_EPOCH"): (75, "the page says so: it is fenced"),
    ("docs/how-to/add-a-cluster.md", "dispatch clusters check"): (
        1,
        "the Slurm that is here lacks the page's partition and user; it names them",
    ),
    ("docs/how-to/trainjob.md", "dispatch clusters check"): (1, "no Trainer is here; it says so"),
    ("*", "dispatch why docs/incidents/newer-facts"): (1, "the record can't be read whole"),
    ("*", "dispatch why docs/incidents/entry-missing"): (1, "the record can't be read whole"),
    ("*", "dispatch why docs/incidents/edited-by-hand"): (1, "the record can't be read whole"),
}
"""Commands that end with another code than 0, by page and beginning."""

READS = re.compile(
    r"dispatch (why|history|list|top|status|usage|whoami|clusters|lint|verify|explain)\b|"
    r"(sacct|scontrol|kubectl|aws|\.venv-sam/bin/sam)\b"
)
"""What changes nothing, so that the same line is typed once for all pages of the reference."""


def typed() -> Mapping[str, list[Typed]]:
    found: dict[str, list[Typed]] = {}
    for block in blocks("console", "sh"):
        if block.page != TUTORIAL:
            found.setdefault(block.page, []).extend(block.typed())
    return found


PAGES = typed()


@pytest.fixture(scope="package")
def typed_before() -> set[str]:
    return set()


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_can_be_typed_as_they_stand(
    page: str, stack: Running, over: str, tmp_path: Path, typed_before: set[str], forked: Forked
) -> None:
    person = Person(stack, tmp_path, forked.client())
    with person.during:
        followed(page, person, over, typed_before)
    person.judged()


def followed(page: str, person: Person, over: str, typed_before: set[str]) -> None:
    """Type all that a page says."""
    words = SCENES.get(page, nothing)(person, over)
    for one in PAGES[page]:
        if one.command.split("  #")[0].strip() in NOT_TYPED:
            continue
        mine = {"CLUSTER": "local", **words, "JOB": person.job or over}
        if re.search(r"\bREF\b", one.command):
            mine["REF"] = person.running()
        known = f"{mine['JOB']} {one.command}"
        if page.startswith("docs/reference/") and READS.match(one.command):
            if known in typed_before and not one.answer:
                continue
            typed_before.add(known)
        if one.command.startswith(GOES_ON):
            code, said = person.begins(one.command.split("  #")[0] + MORE.get(page, ""))
        else:
            code, said = person.types(one.command, mine)
        assert code == wanted(page, one), f"{page}: {one.command}\n(exit code {code})\n{said}"
        if one.answer:
            answered(one, said, page)


def wanted(page: str, one: Typed) -> int:
    """Return the exit code that a command is to end with."""
    for (where, begins), (code, _) in FAILS.items():
        if where in (page, "*") and one.command.startswith(begins):
            return code
    last = PAGES[page][-1] is one
    if page.startswith("docs/reference/errors/") and last:
        (kind,) = (kind for kind in kinds() if page.endswith(f"/{kind.code}.md"))
        assert kind.exit_code is not None
        return kind.exit_code
    return 0


def answered(one: Typed, said: str, page: str) -> None:
    """Compare what a page shows with what was said, but for ids, times and places."""
    shown, real = plain("\n".join(one.answer)), plain(said)
    pattern = ".*".join(re.escape(part) for part in shown.split("…"))
    assert re.fullmatch(pattern, real, re.S), f"{page}: {one.command}\n{said}"


def plain(text: str) -> str:
    text = re.sub(r"\bj[a-z2-7]{20}\b", "JOB", text)
    text = re.sub(r"http://127\.0\.0\.1:\d{2,}", "URL", text)
    text = re.sub(r"\d+(\.\d+)?( s\b)", r"N\2", text)
    return re.sub(r"[ \n]+", " ", text).strip()


# --- what a page takes for granted ------------------------------------------------------------


Scene = Callable[[Person, str], Mapping[str, str]]

MORE: Mapping[str, str] = {
    "docs/how-to/archive.md": " --state ~/another --port 0",
}
"""What is added to a command that goes on: another stack has the usual folder and port."""


def nothing(person: Person, over: str) -> Mapping[str, str]:
    """An export and a job file lie around, and a deployment is there, as pages take for granted."""
    for name in ("incident.jsonl", f"{over}.jsonl"):
        assert person.types(f"dispatch export {over} -o {name}", {})[0] == 0
    (person.home / "job.yaml").write_text("name: mine\ncommand: [echo, hello]\n")
    url = f"*\"'Url'\"*) echo {person.stack.url};;"
    document = f"*get-parameter*) cat {clusters_file(person)};;"
    person.answers("aws", f'case "$*" in {url} {document} *describe-stacks*) echo a-name;; esac')
    pods = here.PODS
    person.answers(
        "kubectl", f'case "$*" in *"-o json"*) cat {pods};; *"-o name"*) echo pod/a;; esac'
    )
    return {"FILE": "job.yaml"}


def clusters_file(person: Person) -> Path:
    """The document in which the stack's own cluster stands, as AWS would keep it."""
    one = {
        "name": "local",
        "adapter": "local",
        "settings": {"spool": f"{person.stack.state}/local"},
    }
    file = person.saved / "clusters.json"
    file.write_text(json.dumps({"schema": "dispatch.clusters.v1", "clusters": [one]}))
    return file


def checkpoints(person: Person, over: str) -> Mapping[str, str]:
    """The example's steps are shorter."""
    file = person.home / "docs/examples/fenced-checkpoints/job.yaml"
    file.write_text(file.read_text().replace('"30", "1"', '"40", "0.3"'))
    return {}


def one_machine(person: Person, over: str) -> Mapping[str, str]:
    return {"SPOOL": str(person.stack.state / "local")}


def clusters(page: str) -> Scene:
    """Return a scene in which the page's document of clusters is kept, and they are here."""

    def scene(person: Person, over: str) -> Mapping[str, str]:
        told = [json.loads(one.text) for one in blocks("json") if one.page == page]
        whole = next((one for one in told if one.get("clusters")), None)
        document = whole or {**told[0], "clusters": told[1:]}
        for one in document["clusters"]:
            kind = here.kubernetes if one["adapter"] == "eks" else here.slurm
            one["settings"] |= person.during.enter_context(kind(person.home))
        file = person.home / "clusters.json"
        file.write_text(json.dumps(document))
        person.environment["DISPATCH_CLUSTERS"] = f"file:{file}"
        usual = nothing(person, over)
        for block in blocks("yaml"):
            if block.page == page and "command:" in block.text.split("spec:")[0]:
                (person.home / "job.yaml").write_text(block.text)
                break
        return {**usual, "NAME": document["clusters"][0]["name"]}

    return scene


SCENES: Mapping[str, Scene] = {
    "docs/how-to/add-a-cluster.md": clusters("docs/how-to/add-a-cluster.md"),
    "docs/how-to/fence-checkpoints.md": checkpoints,
    "docs/how-to/kubernetes.md": clusters("docs/how-to/kubernetes.md"),
    "docs/how-to/run-on-one-machine.md": one_machine,
    "docs/how-to/trainjob.md": clusters("docs/how-to/trainjob.md"),
}
