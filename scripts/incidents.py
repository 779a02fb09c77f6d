"""Write docs/incidents: records of what went wrong, and what `dispatch why` says of each.

Most records come out of the simulator, which drives the real supervisor and the real codec; a few
are cut where a person on call would have met them. Those of a real cluster are kept as they were
recorded. The texts are the command's own output.

    python -m scripts.incidents             # writes them anew; read the difference then
    python -m scripts.incidents --check     # says what differs, and exits with 1
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from typer.testing import CliRunner

from dispatch.cli.app import app
from dispatch.errors import RecordRefused
from dispatch.record.codec import decode_entry
from dispatch.record.export import export_text, import_text
from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Cause, IntentKind
from dispatch.record.view import View
from scripts.recorded import RECORDED, Recorded
from simulator.play import Play
from simulator.stories import STORIES
from simulator.stories.story import ASKS, LONG, Story, begin
from simulator.worlds.ground import Fate
from simulator.worlds.rows import Event

FOLDER = Path(__file__).parent.parent / "docs" / "incidents"

PREEMPTED = Fate(40.0, Cause.PREEMPTED, None)
HUNGRY = Fate(40.0, Cause.OUT_OF_MEMORY, 137)


@dataclass(frozen=True, slots=True)
class Incident:
    """One record, and when somebody asks about it.

    Attributes:
        name: Of its files.
        asked: What somebody asks.
        story: Where the record comes from: a story's name, or one of its own.
        entries: How many of its entries had been written; None for all of them.
        later_s: How long after the last of these it is asked.
        broken: What a careless hand did to the record.
    """

    name: str
    asked: str
    story: str | Story
    entries: int | None = None
    later_s: int = 60
    broken: Callable[[str], str] = field(default=lambda text: text)


def _preempted(play: Play) -> None:
    play.fates = [PREEMPTED, PREEMPTED, PREEMPTED]
    _to_the_question(play, IntentKind.GIVE_UP)


def _out_of_memory(play: Play) -> None:
    play.fates = [HUNGRY]
    _to_the_question(play, IntentKind.RESUBMIT)


def _to_the_question(play: Play, answer: IntentKind) -> None:
    """Tick until the plan asks a person, who answers."""
    for _ in range(40):
        play.tick()
        play.wait(20)
        if play.watch.job(play.job_id).recovery is not None:
            break
    play.intend(answer)


def _held_by_an_admin(play: Play) -> None:
    play.tick()
    play.befall(Event.HOLD)
    play.tick()
    play.wait(60)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _stopped_by_an_admin(play: Play) -> None:
    play.fates = [LONG, LONG]
    begin(play)
    play.befall(Event.CANCEL)
    _to_the_question(play, IntentKind.RESUBMIT)
    begin(play)
    play.intend(IntentKind.CANCEL)


def _cancelled_after_its_end(play: Play) -> None:
    play.fates = [Fate(15.0)]
    begin(play)
    play.wait(30)
    play.intend(IntentKind.CANCEL)


def _too_late_to_cancel(play: Play) -> None:
    play.fates = [Fate(15.0)]
    begin(play)
    play.wait(30)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _never_placed(play: Play) -> None:
    play.tick()
    play.befall(Event.WAIT)
    play.wait(30)
    play.tick()
    play.wait(600)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _without_the_choice(text: str) -> str:
    """Leave out the entry that chose the object, as somebody does who tidies a file."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[:4] + lines[5:])


def _another_exit_code(text: str) -> str:
    """Write a field that isn't one, as somebody does who edits a file."""
    return text.replace('"exit_code":0', '"exit_status":0')


OWN_PLAN = Plan(
    default=Rule(action=Action.HOLD),
    causes={Cause.PREEMPTED: Rule(action=Action.RESUBMIT, limit=2, after_limit=Action.HOLD)},
    start_backoff_s=0,
)

INCIDENTS = (
    Incident("clean", "It is done. Was there anything about it?", "a_job_succeeds"),
    Incident(
        "lost-reply",
        "Slurm never answered our submit. Is it running twice?",
        "the_reply_of_a_start_is_lost",
        6,
    ),
    Incident(
        "late-duplicate",
        "squeue shows two jobs of the same name. Which one is ours?",
        "a_frozen_supervisor_goes_on",
        11,
    ),
    Incident(
        "start-never-seen",
        "It is pending since last night and Slurm has nothing. May I submit it again?",
        "a_start_never_seen_waits_for_a_person",
        4,
        3_600 * 8,
    ),
    Incident(
        "node-lost",
        "The node died a minute ago. Why doesn't it start elsewhere?",
        "its_node_is_lost_and_goes_on_computing",
        7,
        20,
    ),
    Incident(
        "node-lost-and-back",
        "It ran on two nodes at different times. Did they ever compute at once?",
        "its_node_is_lost_and_goes_on_computing",
    ),
    Incident(
        "preempted-once",
        "It was preempted. What happens now?",
        Story("preempted", _preempted, changes={"plan": OWN_PLAN}),
        9,
        5,
    ),
    Incident(
        "preempted-out-of-budget",
        "It was preempted again and sits there. Why isn't it started again?",
        Story("preempted", _preempted, changes={"plan": OWN_PLAN}),
        25,
        7_200,
    ),
    Incident(
        "out-of-memory",
        "It stopped in the middle. Is it our code?",
        Story("hungry", _out_of_memory, changes={"plan": ASKS}),
        9,
        1_800,
    ),
    Incident(
        "purged-evidence",
        "It is gone from Slurm. Did it finish?",
        "evidence_is_purged_before_anyone_looked",
        7,
        300,
    ),
    Incident(
        "accounting-knew",
        "It was gone from Slurm when we looked. How do we know how it ended?",
        "accounting_still_knows",
    ),
    Incident(
        "foreign-object",
        "Nothing has started for an hour. What is it waiting for?",
        "a_foreign_object_blocks_until_a_person_vouches",
        5,
        3_600,
    ),
    Incident(
        "held-by-an-admin",
        "It won't start. Who holds it?",
        Story("held_outside", _held_by_an_admin),
        6,
        900,
    ),
    Incident(
        "stopped-by-an-admin",
        "Somebody ended my job. Who, and is it safe to run it again?",
        Story("stopped_outside", _stopped_by_an_admin, changes={"plan": ASKS}),
        9,
        600,
    ),
    Incident(
        "mass-loss",
        "All jobs of the cluster are gone at once. Did they all fail?",
        "most_are_really_lost_and_a_person_says_so",
        8,
        600,
    ),
    Incident(
        "cancel-against-success",
        "I cancelled it, and the log says that it had finished. Which is it?",
        Story("late_cancel", _cancelled_after_its_end),
    ),
    Incident(
        "too-late-to-cancel",
        "I cancelled it. Why does it say that it succeeded?",
        Story("too_late", _too_late_to_cancel),
    ),
    Incident(
        "cancel-undone",
        "I cancelled it an hour ago and it is still on a node.",
        "an_acknowledged_cancel_is_undone",
        9,
        30,
    ),
    Incident(
        "requeue-on-its-way",
        "It failed, and squeue shows it pending again. Who did that?",
        "a_requeue_lands_late",
        7,
        10,
    ),
    Incident(
        "wont-stop",
        "It was cancelled, and it won't go away. What now?",
        "an_object_that_will_not_end_is_abandoned",
        7,
        1_200,
    ),
    Incident(
        "never-placed",
        "It has been pending for ten minutes. Will it ever run?",
        Story("waits", _never_placed),
        6,
        600,
    ),
    Incident(
        "name-taken",
        "Kubernetes says that the Job exists. Is it ours?",
        "its_name_is_taken_by_another_copy",
        8,
        600,
    ),
    Incident(
        "recreated-by-hand",
        "Somebody deleted the Job and made it anew with kubectl. What counts?",
        "made_anew_under_its_name",
        9,
        20,
    ),
    Incident("given-up", "Who decided that it failed, and why?", "given_up"),
    Incident(
        "newer-facts",
        "An upgrade is under way and the status can't be shown. Can I still cancel?",
        "an_older_build_can_still_cancel",
        6,
    ),
    Incident(
        "entry-missing",
        "Somebody tidied the exported file. Can it be trusted?",
        "a_job_succeeds",
        broken=_without_the_choice,
    ),
    Incident(
        "edited-by-hand",
        "Somebody corrected the exported file. Can it be trusted?",
        "a_job_succeeds",
        broken=_another_exit_code,
    ),
)

_INTRODUCTION = """
# Incidents

{count} records, each as somebody on call met it. Read the question, ask the record, and only then read what
it answers. Nothing but the command and the file is needed: no stack, no network.

Those of the first table come out of the simulator, which drives the real supervisor; their clusters, people and
times are made up. Some are cut where the question was asked. `make pages` writes them anew. Those of the second
were exported from a real Slurm and are kept as they are; only their answers are written anew.
"""  # noqa: E501 - prose is as wide as prose elsewhere


def _play(story: str | Story) -> View:
    found = next(one for one in STORIES if one.name == story) if isinstance(story, str) else story
    play = found.play()
    return play.records.read(play.job_id)


def made(incident: Incident) -> dict[str, str]:
    """Return the files of an incident, by name."""
    view = _play(incident.story)
    if incident.entries is not None:
        assert incident.entries < len(view.entries), incident.name
        view = replace(view, entries=view.entries[: incident.entries])
    record = f"{incident.name}.jsonl"
    text = incident.broken(export_text(view))
    now = _last(view) + timedelta(seconds=incident.later_s)
    return {record: text, f"{incident.name}.txt": _why(record, text, now)}


def _last(view: View) -> datetime:
    for entry in reversed(view.entries):
        try:
            return decode_entry(entry).at
        except RecordRefused:
            continue
    raise AssertionError(f"no entry of {view.job_id} can be read")


def _why(record: str, text: str, now: datetime) -> str:
    """Return the command, and what it answers."""
    command = ["why", record, "--utc", "--now", now.strftime("%Y-%m-%dT%H:%M:%SZ")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / record
        path.write_text(text, encoding="utf-8")
        settings = {"COLUMNS": "100", "NO_COLOR": "1", "DISPATCH_STATE": folder}
        done = CliRunner().invoke(app, ["why", str(path), *command[2:]], env=settings)
    told = "\n".join(line.rstrip() for line in done.output.replace(str(path), record).splitlines())
    end = f"\n\n(exit code {done.exit_code})" if done.exit_code else ""
    return f"$ dispatch {' '.join(command)}\n\n{told.strip()}{end}\n"


def index() -> str:
    """Return the page that lists them."""
    lines = [_INTRODUCTION.format(count=len(INCIDENTS) + len(RECORDED)).strip(), ""]
    lines += _listed(INCIDENTS)
    lines += ["", "On a real Slurm:", "", *_listed(RECORDED)]
    return "\n".join(lines) + "\n"


def _listed(incidents: Sequence[Incident | Recorded]) -> Iterator[str]:
    yield "| question | record | answer |"
    yield "|---|---|---|"
    for one in incidents:
        name = one.name
        yield f"| {one.asked} | [{name}.jsonl]({name}.jsonl) | [{name}.txt]({name}.txt) |"


def kept(incident: Recorded) -> dict[str, str]:
    """Return the files of a recorded incident, by name; its record is the one that is there."""
    record = f"{incident.name}.jsonl"
    text = (FOLDER / record).read_text(encoding="utf-8")
    now = _last(import_text(text)) + timedelta(seconds=incident.later_s)
    return {record: text, f"{incident.name}.txt": _why(record, text, now)}


def wanted() -> dict[str, str]:
    """Return every file of the folder, by name."""
    files = {"index.md": index()}
    for incident in INCIDENTS:
        files.update(made(incident))
    for recorded in RECORDED:
        files.update(kept(recorded))
    return files


def differing() -> Iterator[str]:
    """Yield the names of the files that aren't as they would be written."""
    files = wanted()
    here = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    for name in sorted(files.keys() | here.keys()):
        if files.get(name) != here.get(name):
            yield name


def main(arguments: list[str]) -> int:
    """Write the folder, or say what differs."""
    if arguments == ["--check"]:
        names = list(differing())
        for name in names:
            print(f"docs/incidents/{name} isn't as it would be written", file=sys.stderr)
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = wanted()
    for path in FOLDER.iterdir():
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(files)} files in docs/incidents")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
