"""The local cluster as a `Scheduler`: every call is a change to a folder of the spool."""

from __future__ import annotations

import codecs
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from dispatch.errors import CallRefused, CallUnknown, HitOther, SchedulerUnavailable, Unsupported
from dispatch.record.evidence import Found, Glance, Sighting
from dispatch.record.header import Declarations, Spec
from dispatch.record.names import Capability, Cause
from dispatch.schedulers.local import life as lives
from dispatch.schedulers.local import memory, processes, request, states, tending
from dispatch.schedulers.local.codec import Unreadable
from dispatch.schedulers.local.life import US, Ask, Life, Order, Refused
from dispatch.schedulers.local.spool import Busy, Folder, Gone, Spool, Taken, output_paths
from dispatch.schedulers.scheduler import (
    CheckLine,
    LookedUp,
    Output,
    Sent,
    Started,
    StartOrder,
    StartRefused,
    Tag,
    Target,
)

REQUEST_TIMEOUT_S = 1
LANDING_BOUND_S = 1
CALL_BOUND_S = 3
NODE_LOSS_WINDOW_S = 2
SAVE_WINDOW_S = 1
RETENTION_S = 600
CAPABILITIES = (
    Capability.GATED_START,
    Capability.HOLD_PENDING,
    Capability.HOLD_RUNNING,
    Capability.REQUEUE_LIVE,
    Capability.REQUEUE_ENDED,
    Capability.EXIT_CODES,
    Capability.OUTPUT,
    Capability.UNIQUE_NAMES,
)

_REF = re.compile(r"(.+)/([a-z0-9]+\.[0-9]+\.[0-9]+)/([0-9a-f]+)")
_MOST_BYTES_OF_A_CHARACTER = 4


def declarations(cluster: str, retention_s: int = RETENTION_S) -> Declarations:
    """Return what such a cluster declares, whether its spool is there or not."""
    return Declarations(
        adapter="local",
        cluster=cluster,
        capabilities=CAPABILITIES,
        node_loss_window_s=NODE_LOSS_WINDOW_S,
        call_bound_s=CALL_BOUND_S,
        landing_bound_s=LANDING_BOUND_S,
        request_timeout_s=REQUEST_TIMEOUT_S,
        retention_s=retention_s,
        save_window_s=SAVE_WINDOW_S,
        clock_skew_s=0,
    )


class _NotFound(Exception):
    """The ref leads to nothing here."""


class LocalScheduler:
    """One machine as a cluster; several of these may serve one spool at the same time.

    Args:
        spool_dir: Where the cluster keeps its objects: a folder on a local disk, made if missing.
        cluster: The cluster's configured name.
        clock: The time, aware and UTC.
        retention_s: How long an ended object stays visible.
        limits: What the machine lends to one object.
        chance: Draws what makes an identity unique, hex digits.
    """

    def __init__(
        self,
        spool_dir: Path,
        cluster: str,
        clock: Callable[[], datetime],
        *,
        retention_s: int = RETENTION_S,
        limits: request.Limits | None = None,
        chance: Callable[[], str] | None = None,
    ) -> None:
        self._spool = Spool(spool_dir.absolute())
        self._cluster = cluster
        self._clock = clock
        self._retention = timedelta(seconds=retention_s)
        self._limits = limits or request.Limits()
        self._chance = chance or _drawn
        self._over: dict[str, tuple[int, int]] = {}
        try:
            self._spool.open(lambda: f"local:{self._chance()}")
        except (OSError, Busy) as problem:
            raise SchedulerUnavailable(f"cluster {cluster}: {problem}") from problem

    # --- questions ---

    def declare(self) -> Declarations:
        """Return the cluster's declarations; none of it depends on the machine's state."""
        return declarations(self._cluster, int(self._retention.total_seconds()))

    def check(self) -> Sequence[CheckLine]:
        """Say whether the spool is there and writable, and what this machine lets a run do."""
        lines = []
        try:
            identity = self._spool.identity()
            names = self._spool.names()
            lines.append(CheckLine("reach", True, f"{self._spool.root}: {len(names)} objects"))
            lines.append(CheckLine("identity", True, identity))
        except Gone as problem:
            lines.append(CheckLine("reach", False, str(problem)))
        writable = os.access(self._spool.root, os.R_OK | os.W_OK | os.X_OK)
        who = f"uid {os.getuid()}: jobs run as this user"
        lines.append(CheckLine("rights", writable, who if writable else f"{who}, who can't write"))
        lines.append(self._machine())
        lines.append(CheckLine("memory", True, self._memory()))
        return lines

    def _machine(self) -> CheckLine:
        try:
            boot = processes.boot_id()
        except OSError as problem:
            why = f"no boot id ({problem}): a run can't be told from one before a reboot"
            return CheckLine("machine", False, why)
        seen = processes.read(os.getpid()) is not None
        return CheckLine("machine", seen, f"boot {boot}, Python {sys.version.split()[0]}")

    def _memory(self) -> str:
        watched = "a watchdog on resident memory"
        if not self._limits.cgroups:
            return f"limited by {watched}: control groups are switched off"
        parent = memory.usable()
        if parent is None:
            return f"limited by {watched}: no control group may be made here"
        return f"limited by control groups (v{parent.version}) under {parent.path}"

    def lint(self, spec: Spec) -> Sequence[str]:
        """Return what this cluster refuses of a spec."""
        return request.refusals(spec, self._limits)

    def glance(self) -> Glance:
        """Return a token for each live object; objects known to have ended aren't read again."""
        taken_at = self._clock()
        identity, names = self._listing()
        tokens: dict[str, str] = {}
        for name in names:
            folder = self._spool.folder(name)
            try:
                stat = (folder.path / "life.json").stat()
                mark = (stat.st_ino, stat.st_mtime_ns)
                if self._over.get(name) == mark:
                    continue
                life = tending.tended(folder, self._now(), REQUEST_TIMEOUT_S)
                if life.ended and not life.draining:
                    self._over[name] = mark
                else:
                    tokens[folder.order().ref] = str(life.serial)
            except (Gone, Busy, Unreadable, OSError):
                # Not seen isn't absent: the evidence Find that follows will say what is wrong.
                continue
        for name in self._over.keys() - set(names):
            self._over.pop(name, None)
        return Glance(self._cluster, identity, taken_at, self._clock(), tokens)

    def find(self) -> Found:
        """Return every object of the spool; one folder that can't be read makes it incomplete."""
        taken_at = self._clock()
        identity, names = self._listing()
        by_job: dict[str, tuple[Sighting, ...]] = {}
        errors: list[str] = []
        for name in names:
            try:
                seen = self._sighting(name)
            except (Busy, Unreadable, OSError) as problem:
                errors.append(f"{name}: {problem}")
                continue
            if seen is not None:
                job = name.partition(".")[0]
                by_job[job] = (*by_job.get(job, ()), seen)
        if self._listing()[0] != identity:
            raise SchedulerUnavailable(f"cluster {self._cluster}: another spool took its place")
        return Found(
            cluster=self._cluster,
            identity=identity,
            taken_at=taken_at,
            seen_at=self._clock(),
            complete=not errors,
            by_job=by_job,
            error="; ".join(errors)[:1000] or None,
        )

    def _listing(self) -> tuple[str, list[str]]:
        try:
            return self._spool.identity(), self._spool.names()
        except Gone as problem:
            raise SchedulerUnavailable(f"cluster {self._cluster}: {problem}") from problem

    def _sighting(self, name: str) -> Sighting | None:
        folder = self._spool.folder(name)
        try:
            order = folder.order()
            if order.folder_name != name:
                raise Unreadable(f"it holds the order of {order.folder_name}")
            life = tending.tended(folder, self._now(), REQUEST_TIMEOUT_S)
            if self._is_old(life) and self._forgot(name):
                memory.remove(life.cgroups)
                return None
            return states.sighting(order, life)
        except Gone:
            if folder.path.exists():
                raise Unreadable("it appeared while it was read") from None
            return None

    def _forgot(self, name: str) -> bool:
        try:
            return self._spool.forget(name, self._is_old, REQUEST_TIMEOUT_S)
        except Busy:
            # Somebody else is at it; until it is done the object is shown.
            return False

    def _is_old(self, life: Life) -> bool:
        at = states.ended_at(life)
        return at is not None and self._clock() >= at + self._retention

    # --- calls ---

    def start(self, order: StartOrder) -> Started | StartRefused:
        """Create the object behind its gate; the folder of a tag exists at most once."""
        in_time = self._deadline()
        refusals = list(request.refusals(order.spec, self._limits))
        if order.spec.workdir is not None and not Path(order.spec.workdir).is_dir():
            refusals.append(f"field 'workdir': {order.spec.workdir} is no folder here")
        if refusals:
            return StartRefused(Cause.INVALID_SPEC, "; ".join(refusals))
        key = self._chance()
        ref = request.ref_of(self._cluster, order.tag, key)
        identity = request.Identity(ref, self._cluster, self._clock())
        kept = request.order_of(order, identity, self._limits)
        try:
            self._spool.identity()
            path = self._spool.prepare(kept, Life(), order.spec.script, key)
            try:
                self._spool.publish(path, kept.folder_name, REQUEST_TIMEOUT_S, in_time)
            finally:
                self._spool.discard(path)
        except Taken:
            return self._holder(order.tag)
        except (Gone, Busy, Unreadable, OSError) as problem:
            raise self._unknown(order.tag, problem) from problem
        return Started(ref, request.notes_of(order))

    def _holder(self, tag: Tag) -> Started | StartRefused:
        name = f"{tag.job}.{tag.n}.{tag.a}"
        for folder, note in (
            (self._spool.folder(name), "it existed already"),
            (self._spool.forgotten(name), "it existed, has ended, and was forgotten since"),
        ):
            try:
                order = folder.order()
            except Gone:
                continue
            except Unreadable as problem:
                raise self._unknown(tag, problem) from problem
            if request.tag_of(order) == tag:
                return Started(order.ref, (note,))
            detail = f"{order.ref} has that name, another spec or generation, and {note}"
            return StartRefused(Cause.NAME_TAKEN, detail)
        raise self._unknown(tag, Gone(f"{name} came and went"))

    def stop(self, target: Target) -> None:
        """Have the runner end the whole tree; an object without processes ends at once."""
        try:
            self._change(target, partial(lives.stop, ask=Ask.STOP, now=self._now()))
        except _NotFound:
            return

    def hold(self, target: Target) -> None:
        """Keep it from running; a running object is ended, and waits with one more restart."""
        self._refusable(target, partial(lives.hold, by=US))

    def release(self, target: Target) -> None:
        """Lift our hold or the gate, and start what may run now."""
        self._refusable(target, partial(lives.release, by=US))

    def requeue(self, target: Target) -> None:
        """Run the same object again, unless it was restarted since the target was recorded."""
        self._refusable(target, partial(lives.requeue, restarts=target.restarts))

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        """Refuse: what this cluster has forgotten it doesn't know.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported(f"cluster {self._cluster} keeps no accounting")

    def output(self, target: Target, *, offset: int, limit: int) -> Output:
        """Return a piece of node 0's output, of all its runs, also after it was forgotten."""
        try:
            self._spool.identity()
            folder, order = self._located(target, also_forgotten=True)
            life = folder.life()
            path = folder.path / output_paths(order)[0]
            return _piece(path, offset, limit, life)
        except _NotFound as problem:
            raise SchedulerUnavailable(f"{target.ref} is unknown", job=target.tag.job) from problem
        except (Gone, Unreadable, OSError) as problem:
            raise SchedulerUnavailable(str(problem), job=target.tag.job) from problem

    def written_at(self, target: Target) -> datetime | None:
        """Return when any node of the object last wrote, as `TellsProgress.written_at` promises."""
        try:
            folder, order = self._located(target)
            times = [_changed_at(folder.path / path) for path in output_paths(order)]
        except _NotFound:
            return None
        except (Gone, Unreadable, OSError) as problem:
            raise SchedulerUnavailable(str(problem), job=target.tag.job) from problem
        return max((one for one in times if one is not None), default=None)

    def _refusable(self, target: Target, change: Callable[[Life], Life]) -> None:
        try:
            self._change(target, change)
        except _NotFound as problem:
            raise CallRefused(f"{target.ref} is unknown", job=target.tag.job) from problem

    def _change(self, target: Target, change: Callable[[Life], Life]) -> None:
        """Change an object if it is the target, in time or not at all."""
        in_time = self._deadline()
        starter: subprocess.Popen[bytes] | None = None
        try:
            self._spool.identity()
            folder, _ = self._located(target)
            with folder.locked(REQUEST_TIMEOUT_S):
                life = folder.life()
                changed = change(life)
                if changed != life:
                    in_time()
                    life = folder.save(changed)
                starter = tending.roused(folder, life)
            tending.started(folder, starter, REQUEST_TIMEOUT_S)
        except Refused as problem:
            raise CallRefused(f"{target.ref}: {problem}", job=target.tag.job) from problem
        except (Gone, Busy, Unreadable, OSError) as problem:
            raise self._unknown(target.tag, problem) from problem

    def _located(self, target: Target, also_forgotten: bool = False) -> tuple[Folder, Order]:
        """Return the target's folder, having compared its tag."""
        parts = _REF.fullmatch(target.ref)
        if parts is None:
            raise _NotFound
        if parts[1] != self._cluster:
            why = f"{target.ref} isn't of cluster {self._cluster}"
            raise CallRefused(why, job=target.tag.job)
        places = [self._spool.folder(parts[2])]
        if also_forgotten:
            places.append(self._spool.forgotten(parts[2]))
        for folder in places:
            try:
                order = folder.order()
            except Gone:
                continue
            if order.ref != target.ref:
                continue
            if request.tag_of(order) != target.tag:
                raise HitOther(f"{target.ref} carries another tag", job=target.tag.job)
            return folder, order
        raise _NotFound

    def _deadline(self) -> Callable[[], None]:
        """Return what raises `Busy` once a call has taken longer than it may."""
        until = processes.uptime_s() + REQUEST_TIMEOUT_S

        def in_time() -> None:
            if processes.uptime_s() > until:
                raise Busy("the call took too long and was given up before it did anything")

        return in_time

    def _unknown(self, tag: Tag, problem: Exception) -> CallUnknown:
        return CallUnknown(f"cluster {self._cluster}: {problem}", job=tag.job)

    def _now(self) -> str:
        return self._clock().isoformat()


def _drawn() -> str:
    return secrets.token_hex(8)


def _changed_at(path: Path) -> datetime | None:
    """Return when a file last grew; None where there is none, or nothing in it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return datetime.fromtimestamp(found.st_mtime, UTC) if found.st_size else None


def _piece(path: Path, offset: int, limit: int, life: Life) -> Output:
    try:
        with path.open("rb") as file:
            start, size = life.output_from + offset, os.fstat(file.fileno()).st_size
            # Past the end nothing is written, and a file system need not know a place so far out.
            file.seek(min(start, size))
            data = file.read(limit) if start <= size else b""
            more = bool(file.read(1))
    except FileNotFoundError:
        return Output("", offset, life.ended)
    over = life.ended and not life.draining and not more
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A character that was cut in two is left for the next piece, unless there is none.
    whole = over or limit < _MOST_BYTES_OF_A_CHARACTER
    text = decoder.decode(data, final=whole)
    left = 0 if whole else len(decoder.getstate()[0])
    return Output(text, offset + len(data) - left, over)
