"""One job of slurmctld or one run of accounting, read from its JSON; pure.

Every shape that a data parser has had is read: numbers plain or as `{set, infinite, number}`,
states as text or list, exits as a wait status, `rc:signal` or a structure, nodes as text or a
structure. What only grew a new field is read as before; what lost its meaning is `Malformed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.slurm.hostlist import expanded
from dispatch.schedulers.slurm.numbers import instant, number, positive
from dispatch.schedulers.slurm.states import Evidence, Exit, Meaning, meaning

NOT_LAUNCHED: Final = (
    "its node refused to launch it; the exit code 1 is Slurm's own, no process made it"
)

CONTROLLER: Final = "slurmctld"
ACCOUNTING: Final = "slurmdbd"

_CANCELLED_BY = re.compile(r"^CANCELLED by (\S+)\Z")
_COLON_EXIT = re.compile(r"^([0-9]+):([0-9]+)\Z")


@dataclass(frozen=True, slots=True)
class Malformed:
    """An entry that can't be read.

    Attributes:
        job_id: Its id, where that can be read.
        name: Its name, where that can be read.
        reason: The field and what is wrong with it.
    """

    job_id: int | None
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """One job as slurmctld shows it, or one run as accounting does.

    Attributes:
        job_id: Slurm's id.
        source: The book it was read from.
        meaning: What its state means.
        tokens: The state as it was written.
        name: Its name.
        user: Whose it is.
        comment: Its comment.
        extra: Its extra.
        restarts: How often Slurm started it again.
        submitted_at: When this run was submitted.
        started_at: When this run started.
        ended_at: When this run ended.
        nodes: Where it runs or ran.
        node_count: How many nodes that are.
        reason: Slurm's words about its state.
        requeue: Whether Slurm may start it again by itself.
        of_many: Whether it is part of an array or of a heterogeneous job.
        federated: Where it comes from, in a federation.
        cluster: The cluster that the entry names.
        raw: The entry.
    """

    job_id: int
    source: str
    meaning: Meaning
    tokens: tuple[str, ...] = ()
    name: str = ""
    user: str = ""
    comment: str = ""
    extra: str = ""
    restarts: int = 0
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    nodes: tuple[str, ...] = ()
    node_count: int = 0
    reason: str = ""
    requeue: bool | None = None
    of_many: bool = False
    federated: str = ""
    cluster: str = ""
    raw: Mapping[str, Any] | None = None

    @property
    def life(self) -> tuple[int, int]:
        """A key that is larger for a later run of the same id."""
        submitted = 0 if self.submitted_at is None else int(self.submitted_at.timestamp())
        return (submitted, self.restarts)

    @property
    def running_base(self) -> bool:
        """Whether Slurm calls it RUNNING or SUSPENDED: a hold doesn't keep it from running."""
        return bool({"RUNNING", "SUSPENDED"} & set(self.tokens))

    @classmethod
    def submitted(cls, job_id: int, *, held: bool) -> Row:
        """Return the row of a job that a submit's reply has just named."""
        return cls(job_id, CONTROLLER, Meaning(ObjectState.PENDING, held=held), ("PENDING",))


def job_row(entry: Any) -> Row | Malformed:
    """Return one entry of slurmctld's jobs."""
    if not isinstance(entry, Mapping):
        return Malformed(None, "", "a job that isn't an object")
    job_id = positive(entry.get("job_id"))
    name = _text(entry.get("name"))
    if job_id is None:
        return Malformed(None, name, "field 'job_id': no number")
    if "job_state" not in entry:
        return Malformed(job_id, name, "field 'job_state' is missing")
    tokens, killed_by = _tokens(entry["job_state"])
    nodes = _nodes(entry)
    restarts = number(entry.get("restart_cnt")) or 0
    meant = meaning(
        Evidence(
            tokens=tokens,
            reason=_text(entry.get("state_reason")),
            description=_text(entry.get("state_description")),
            held=_held(entry),
            exit=_exit(entry.get("exit_code")),
            restarts=restarts,
            ran=bool(nodes),
            killed_by=killed_by,
            user=_text(entry.get("user_name")),
        )
    )
    return Row(
        job_id=job_id,
        source=CONTROLLER,
        meaning=meant,
        tokens=tokens,
        name=name,
        user=_text(entry.get("user_name")),
        comment=_text(entry.get("comment")),
        extra=_text(entry.get("extra")),
        restarts=restarts,
        submitted_at=instant(entry.get("submit_time")),
        started_at=_started(meant, nodes, entry.get("start_time")),
        ended_at=_ended(meant, entry.get("end_time")),
        nodes=nodes,
        node_count=number(entry.get("node_count")) or len(nodes),
        reason=_reason(tokens, entry.get("state_reason"), entry.get("state_description"), meant),
        requeue=entry["requeue"] if isinstance(entry.get("requeue"), bool) else None,
        of_many=_of_many(entry),
        federated=_text(entry.get("federation_origin")),
        cluster=_text(entry.get("cluster")),
        raw=entry,
    )


def state_row(entry: Any) -> Row | Malformed:
    """Return one entry of `jobs/state/`: an id and a state, and nothing else."""
    if not isinstance(entry, Mapping):
        return Malformed(None, "", "a state that isn't an object")
    job_id = positive(entry.get("job_id"))
    if job_id is None:
        return Malformed(None, "", "field 'job_id': no number")
    tokens, _ = _tokens(entry.get("state", entry.get("job_state")))
    return Row(job_id, CONTROLLER, meaning(Evidence(tokens)), tokens, reason=" ".join(tokens))


def accounting_row(entry: Any) -> Row | Malformed:
    """Return one run as accounting keeps it."""
    if not isinstance(entry, Mapping):
        return Malformed(None, "", "a run that isn't an object")
    job_id = positive(entry.get("job_id"))
    name = _text(entry.get("name"))
    if job_id is None:
        return Malformed(None, name, "field 'job_id': no number")
    state = entry.get("state")
    state = state if isinstance(state, Mapping) else {"current": state}
    if state.get("current") is None:
        return Malformed(job_id, name, "field 'state.current' is missing")
    tokens, killed_by = _tokens(state["current"])
    times = entry.get("time")
    times = times if isinstance(times, Mapping) else {}
    nodes = _nodes(entry)
    restarts = number(entry.get("restart_cnt")) or 0
    user = _text(entry.get("user")) or _text(_inner(entry, "association", "user"))
    meant = meaning(
        Evidence(
            tokens=tokens,
            reason=_text(state.get("reason")),
            held=_held(entry),
            exit=_exit(entry.get("exit_code")),
            restarts=restarts,
            ran=bool(nodes) and instant(times.get("start")) is not None,
            killed_by=_text(entry.get("kill_request_user")) or killed_by,
            user=user,
        )
    )
    if meant.cause is Cause.APP_ERROR and meant.exit_code == 1 and _never_launched(entry):
        meant = Meaning(ObjectState.FAILED, Cause.LAUNCH_FAILED, note=NOT_LAUNCHED)
    comment = entry.get("comment")
    comment = comment.get("job") if isinstance(comment, Mapping) else comment
    return Row(
        job_id=job_id,
        source=ACCOUNTING,
        meaning=meant,
        tokens=tokens,
        name=name,
        user=user,
        comment=_text(comment),
        extra=_text(entry.get("extra")),
        restarts=restarts,
        submitted_at=instant(times.get("submission")),
        started_at=_started(meant, nodes, times.get("start")),
        ended_at=_ended(meant, times.get("end")),
        nodes=nodes,
        node_count=number(entry.get("allocation_nodes")) or len(nodes),
        reason=_reason(tokens, state.get("reason"), "", meant),
        of_many=_of_many(entry),
        cluster=_text(entry.get("cluster")),
        raw=entry,
    )


def _never_launched(entry: Mapping[str, Any]) -> bool:
    """Return whether a run's batch step, where it is shown, never became a process."""
    steps = entry.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, Mapping) and _inner(step, "step", "name") == "batch":
            return "CANCELLED" in _tokens(step.get("state"))[0]
    return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _inner(entry: Mapping[str, Any], *keys: str) -> Any:
    value: Any = entry
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _tokens(value: Any) -> tuple[tuple[str, ...], str]:
    """Return the state's tokens and, in the text form, who cancelled it."""
    killed_by = ""
    if isinstance(value, str):
        found = _CANCELLED_BY.match(value.strip())
        if found is not None:
            return ("CANCELLED",), found[1]
        value = re.split(r"[,|\s]+", value.strip()) if value.strip() else []
    if not isinstance(value, list | tuple):
        return ("" if value is None else str(value),), killed_by
    return tuple(str(token).strip().upper() for token in value), killed_by


def _exit(value: Any) -> Exit:
    if isinstance(value, Mapping):
        signal = value.get("signal")
        signal = signal if isinstance(signal, Mapping) else {}
        return Exit(
            code=number(value.get("return_code")),
            signal=number(signal.get("id", signal.get("signal_id"))),
        )
    if isinstance(value, str):
        found = _COLON_EXIT.match(value.strip())
        return Exit(int(found[1]), int(found[2]) or None) if found else Exit()
    status = number(value)
    if status is None:
        return Exit()
    return Exit(code=status >> 8, signal=(status & 0x7F) or None)


def _held(entry: Mapping[str, Any]) -> bool:
    hold = entry.get("hold")
    if isinstance(hold, bool):
        return hold
    return "priority" in entry and number(entry["priority"]) == 0


def _nodes(entry: Mapping[str, Any]) -> tuple[str, ...]:
    nodes = entry.get("nodes")
    if nodes is None:
        nodes = _inner(entry, "job_resources", "nodes")
    if isinstance(nodes, Mapping):
        nodes = nodes.get("list") or nodes.get("range") or ""
    if isinstance(nodes, list):
        return tuple(str(node) for node in nodes if node)
    return expanded(_text(nodes))


def _started(meant: Meaning, nodes: tuple[str, ...], value: Any) -> datetime | None:
    """A pending job's start time is Slurm's guess; one without nodes never started."""
    if meant.state is ObjectState.PENDING or not nodes:
        return None
    return instant(value)


def _ended(meant: Meaning, value: Any) -> datetime | None:
    """A live job's end time is its time limit."""
    ended = meant.state in (ObjectState.SUCCEEDED, ObjectState.FAILED)
    return instant(value) if ended else None


def _reason(tokens: tuple[str, ...], reason: Any, description: Any, meant: Meaning) -> str:
    words = [" ".join(tokens)]
    for text in (_text(reason), _text(description), meant.note, meant.alarm or ""):
        if text and text != "None":
            words.append(text)
    return "; ".join(words)[:4000]


def _of_many(entry: Mapping[str, Any]) -> bool:
    array = entry.get("array")
    array_id = _inner(array, "job_id") if isinstance(array, Mapping) else entry.get("array_job_id")
    het = entry.get("het")
    het_id = _inner(het, "job_id") if isinstance(het, Mapping) else entry.get("het_job_id")
    return bool(number(array_id)) or bool(number(het_id))
