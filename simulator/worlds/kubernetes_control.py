"""The API server and the controllers of the simulated Kubernetes: Jobs, their pods, their ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from dispatch.errors import CallRefused, Unsupported
from dispatch.record.evidence import Sighting
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import Started, StartOrder, StartRefused, Tag
from simulator.chance import Chance
from simulator.stage import Stage
from simulator.worlds.ground import Began, Doing, Fate, Ground, Process
from simulator.worlds.kubernetes_objects import NAMESPACE, End, Row, seen
from simulator.worlds.rows import STRANGER, Traits

GATE, HOLD, REQUEUE = "gate", "hold", "requeue"
"""For what Dispatch suspends a Job."""


class KubernetesControl:
    """What the API server answers, and what becomes of Jobs and their pods.

    Attributes:
        declared: What its adapter declares.
        traits: How it differs from other clusters.
        identity: The uid of kube-system.
        rows: The Jobs and what is left of them, by ref.
        down_until: It answers nothing but errors before this true time.
        began: Never told: what it acknowledged it keeps.
        on_end: Told when an object has ended.
        stuck: The refs of pods whose end never comes.
        raised_at: By ref: when somebody else last started it.
    """

    def __init__(self, stage: Stage, chance: Chance, ground: Ground, traits: Traits) -> None:
        self.declared = traits.declared
        self.traits = traits
        self.identity = f"{traits.declared.cluster}-1"
        self.rows: dict[str, Row] = {}
        self.down_until = -1.0
        self.began: float | None = None
        self.on_end: Callable[[], None] = lambda: None
        self.stuck: set[str] = set()
        self.raised_at: dict[str, float] = {}
        self._gated = traits.declared.can(Capability.GATED_START)
        self._stage = stage
        self._chance = chance
        self._ground = ground
        self._names: dict[str, str] = {}
        self._uid = 0
        self._stamp = 0
        self._journal: deque[tuple[float, str, Row | None]] = deque()
        self._shown: dict[int, Sighting] = {}

    # --- what it shows ------------------------------------------------------------------------

    def is_down(self) -> bool:
        """Return whether the API server answers nothing but 429 and 5xx now."""
        return self._stage.now < self.down_until

    def show(self) -> dict[str, tuple[Sighting, ...]]:
        """Return what the lists of Jobs and pods show of Dispatch's."""
        by_job: dict[str, tuple[Sighting, ...]] = {}
        for row in self.rows.values():
            if row.recorded or row.tag.job == STRANGER:
                continue
            shown = self._shown.get(row.stamp)
            if shown is None:
                shown = self._shown[row.stamp] = seen(row, self.traits)
            by_job[row.tag.job] = (*by_job.get(row.tag.job, ()), shown)
        return by_job

    def tokens(self) -> dict[str, str]:
        """Return the version of each Job that hasn't finished, its pod's with it."""
        return {
            ref: str(row.stamp)
            for ref, row in self.rows.items()
            if row.tag.job != STRANGER
            and not row.orphaned
            and not row.recorded
            and (row.end is None or row.deleting)
        }

    def tag_of(self, ref: str) -> Tag | None:
        """Return the tag of this very object; another one of its name doesn't count."""
        row = self.rows.get(ref)
        return None if row is None else row.tag

    def is_there(self, ref: str) -> bool:
        """Return whether this very object is there, or a pod of it."""
        return ref in self.rows

    def is_run(self, ref: str, restarts: int) -> bool:
        """Return whether this very object is in that run."""
        row = self.rows.get(ref)
        return row is None or row.restarts == restarts

    # --- calls that land ----------------------------------------------------------------------

    def start(self, order: StartOrder, decided_at: float) -> Started | StartRefused:
        """Create a Job, suspended; answer 409 where its name is taken."""
        if order.spec.queue == "nowhere":
            return StartRefused(Cause.INVALID_SPEC, "422: queue: there is no such LocalQueue")
        holder = self.rows.get(self._names.get(name_of(order.tag), ""))
        if holder is None:
            if self._chance.hits(self.traits.start_refusal):
                return StartRefused(Cause.START_REFUSED, "403: denied by a webhook")
            doing = (Began.OURS, self._stage.now, decided_at)
            return Started(self.add(order.tag, doing=doing, suspended=True).ref)
        if holder.tag != order.tag:
            return StartRefused(Cause.NAME_TAKEN, f"{holder.name} belongs to another object")
        if holder.deleting:
            return StartRefused(Cause.NAME_TAKEN, f"{holder.name} is being deleted")
        return Started(holder.ref, (f"{holder.name} was there already",))

    def add(
        self,
        tag: Tag,
        *,
        foreign: bool = False,
        doing: Doing | None = None,
        suspended: bool = True,
    ) -> Row:
        """Write a new Job down; Kueue suspends what isn't gated."""
        self._uid += 1
        name = name_of(tag)
        suspended = suspended or not self._gated
        row = Row(
            ref=f"{NAMESPACE}/{name}/uid-{self._uid:04d}",
            name=name,
            tag=tag,
            foreign=foreign,
            suspended=suspended,
            why=GATE if suspended and self._gated else None,
            doing=doing or (Began.OURS, 0.0, 0.0),
        )
        self._names[name] = row.ref
        row = self._put(row)
        self._kick(row)
        return row

    def stop(self, ref: str) -> None:
        """Delete a Job in the foreground, or the pod that an orphaning deletion left."""
        row = self.rows.get(ref)
        if row is None or row.end is not None or row.stopped:
            return
        row = row._replace(stopped=True)
        if not row.process:
            self._let_go(row)
            return
        cause = row.going
        if cause is None or cause is Cause.STOPPED_OUTSIDE:
            cause = Cause.STOPPED
        self._terminate(row._replace(deleting=not row.orphaned, replaced=False), cause)

    def hold(self, ref: str) -> None:
        """Suspend: its pod goes, and held is what it is once that has gone."""
        row = self._changeable(ref)
        if row.process and not self.declared.can(Capability.HOLD_RUNNING):
            raise Unsupported("it runs, and nobody keeps its pod")
        if not row.suspended:
            self._suspend(row._replace(why=HOLD, by_others=False))

    def release(self, ref: str, decided_at: float) -> None:
        """Resume what Dispatch suspended."""
        row = self._changeable(ref)
        if not row.suspended:
            return
        if row.why is None:
            raise CallRefused("it was suspended by somebody else")
        again = row.why == REQUEUE or (self.traits.counts_resumes and row.ran)
        self._resume(row, (Began.OURS, self._stage.now, decided_at), counted=again)

    def suspend_for_requeue(self, ref: str, restarts: int) -> None:
        """Take the first step of a requeue: suspend this very run."""
        row = self._changeable(ref)
        if row.restarts != restarts:
            raise CallRefused(f"it was started again {row.restarts} times, not {restarts}")
        if row.suspended:
            raise CallRefused("it isn't running")
        self._suspend(row._replace(why=REQUEUE, by_others=False))

    def requeue(self, ref: str, restarts: int, decided_at: float) -> None:
        """Take the second step of a requeue: resume, counted."""
        row = self._changeable(ref)
        if not row.suspended or row.why != REQUEUE or row.restarts != restarts:
            raise CallRefused("somebody else changed it meanwhile")
        self._resume(row, (Began.OURS, self._stage.now, decided_at), counted=True)

    def acknowledge(self, ref: str) -> None:
        """Take our finalizer off the pod of what has ended; it is shown no more."""
        row = self.rows.get(ref)
        if row is None or row.end is None or row.recorded:
            return
        if row.deleting or row.orphaned:
            self._remove(row)
        else:
            row = self._put(row._replace(recorded=True))
            self._later(row, float(self.declared.retention_s), self._live_out)

    def goes_on(self, ref: str) -> bool:
        """Return whether an object is there and hasn't ended."""
        row = self.rows.get(ref)
        return row is not None and row.end is None

    def known_before(self, ref: str, when: float) -> bool:
        """There is no accounting."""
        return False

    def account(self, ref: str) -> Sighting | None:
        """Return nothing: Kubernetes keeps no accounts."""
        return None

    def accounted_attempt(self, tag: Tag) -> Sighting | None:
        """Return nothing: Kubernetes keeps no accounts."""
        return None

    def _changeable(self, ref: str) -> Row:
        row = self.rows.get(ref)
        if row is None or (row.orphaned and row.end is None):
            raise CallRefused("404: it isn't there")
        if row.unchangeable:
            raise CallRefused("it has ended")
        return row

    # --- what is written ----------------------------------------------------------------------

    def _put(self, row: Row) -> Row:
        """Write a Job down; what a restore brings back is what was written before."""
        self._stamp += 1
        row = row._replace(stamp=self._stamp)
        self._journal.append((self._stage.now, row.ref, self.rows.get(row.ref)))
        self.rows[row.ref] = row
        return row

    def _remove(self, row: Row) -> None:
        self._journal.append((self._stage.now, row.ref, self.rows.get(row.ref)))
        self.rows.pop(row.ref, None)
        self._free_name(row)
        self._stage.tell("(kubernetes)", f"{row.ref} is gone")

    def _free_name(self, row: Row) -> None:
        if self._names.get(row.name) == row.ref:
            del self._names[row.name]

    def _later(self, row: Row, seconds: float, do: Callable[[Row], None]) -> None:
        """Let something happen to a Job unless something else happened to it before."""

        def due() -> None:
            current = self.rows.get(row.ref)
            if current is not None and current.stamp == row.stamp:
                do(current)

        self._stage.after(seconds, due)

    # --- how a Job runs -----------------------------------------------------------------------

    def _kick(self, row: Row) -> None:
        """Let a Job that waits for nothing but its pod's place have it."""
        if row.process or row.unchangeable or row.waits is not None:
            return
        if not row.suspended:
            self._later(row, self._chance.span(0.3, self.traits.queue_s), self._run)
        elif not self._gated and not row.by_others:
            self._later(row, self._chance.span(0.2, self.traits.queue_s), self._admit)

    def _admit(self, row: Row) -> None:
        self._kick(self._put(row._replace(suspended=False)))

    def _run(self, row: Row) -> None:
        process = self._ground.begin(
            row.ref, row.tag, row.restarts, row.doing, foreign=row.foreign, ends=self._came_to_end
        )
        if process.alive:
            now = self._stage.now
            lost = row.lost if self.traits.keeps_evidence else None
            self._put(row._replace(process=process.number, started=now, ran=True, lost=lost))

    def _suspend(self, row: Row) -> None:
        row = row._replace(suspended=True, replaced=False)
        if row.process:
            self._terminate(row, row.going or Cause.STOPPED)
        else:
            self._put(row)

    def _resume(self, row: Row, doing: Doing, *, counted: bool) -> None:
        ours = doing[0] is Began.OURS
        again = row._replace(
            suspended=False,
            by_others=False,
            why=None if ours else row.why,
            doing=doing,
            restarts=row.restarts + counted,
            replaced=bool(row.process),
        )
        self._kick(self._put(again))

    # --- how it ends --------------------------------------------------------------------------

    def _came_to_end(self, process: Process, fate: Fate) -> None:
        row = self.rows.get(process.ref)
        if row is None or row.process != process.number or row.end or row.going:
            return
        state = ObjectState.SUCCEEDED if fate.cause is None else ObjectState.FAILED
        self._ends(row, End(state, fate.cause, fate.exit_code, self._stage.now))

    def _ends(self, row: Row, end: End) -> None:
        if self.traits.keeps_evidence and end.lost is None:
            end = replace(end, lost=row.lost)
        row = self._put(row._replace(end=end, suspended=False, replaced=False))
        self.on_end()
        vanish = self._chance.hits(self.traits.causes_vanish)
        self._stage.counts["a pod and the cause of its end vanish"] += vanish
        after = self._chance.span(1, 60) if vanish else float(self.declared.retention_s)
        self._later(row, after, self._remove if vanish else self._live_out)

    def _live_out(self, row: Row) -> None:
        """Delete what has ended long ago; a pod that is kept stays without its Job."""
        if not self.traits.keeps_evidence or row.recorded:
            self._remove(row)
        elif not row.orphaned:
            self._free_name(row)
            self._put(row._replace(orphaned=True, deleting=False))

    def _let_go(self, row: Row) -> None:
        """End a deletion: a kept pod still shows how it ended, and nothing else does."""
        if self.traits.keeps_evidence and row.ran:
            cause = Cause.STOPPED if row.stopped else Cause.STOPPED_OUTSIDE
            gone = row._replace(deleting=not row.orphaned)
            self._ends(gone, End(ObjectState.FAILED, cause, None, self._stage.now))
        else:
            self._remove(row)
            self.on_end()

    def _terminate(self, row: Row, cause: Cause) -> None:
        """Let its pod go: it is told to, and is gone after its grace where its node is reached."""
        row = self._put(row._replace(going=cause))
        number = row.process

        def over() -> None:
            process = self._ground.living.get(number)
            current = self.rows.get(row.ref)
            if current is None or current.process != number or current.going is None:
                return
            if process is None or not process.cut:
                self._pod_is_over(current)

        self._stage.after(self._chance.span(0.5, 8), over)

    def _pod_is_over(self, row: Row) -> None:
        """Draw the conclusions from a pod that is over: the Job's end, or a new pod."""
        if row.ref in self.stuck or row.end is not None:
            return
        process = self._ground.living.get(row.process)
        doing = row.doing
        if process is not None and process.cut:
            if row.lost is not None and row.lost > doing[2]:
                # Nobody could know of the loss when this was decided; its controller goes on.
                doing = (Began.SCHEDULER, self._stage.now, self._stage.now)
        elif process is not None:
            self._ground.kill(process, f"its pod is ended ({row.going})")
        if row.deleting or row.orphaned:
            self._deleted(row)
        elif row.suspended or row.replaced:
            if doing[0] is Began.SCHEDULER:
                self.raised_at[row.ref] = self._stage.now
            lost = row.lost if self.traits.keeps_evidence else None
            none = row._replace(process=0, started=None, going=None, lost=lost, replaced=False)
            self._kick(self._put(none._replace(doing=doing)))
        else:
            self._ends(row, self._disruption(row))

    def _deleted(self, row: Row) -> None:
        disrupted = row.going not in (Cause.STOPPED, Cause.STOPPED_OUTSIDE)
        if disrupted and self.traits.keeps_evidence:
            self._ends(row, self._disruption(row))
        else:
            self._let_go(row)

    def _disruption(self, row: Row) -> End:
        cause, lost = row.going, row.lost
        if cause is Cause.NODE_LOST:
            return End(ObjectState.FAILED, cause, None, self._stage.now, lost)
        if not self.traits.keeps_evidence:
            # Only the Job is left, and it says no more than that its pod didn't succeed.
            cause = self._chance.pick((Cause.INTERRUPTED, Cause.LOST))
        return End(ObjectState.FAILED, cause, None, self._stage.now)


def name_of(tag: Tag) -> str:
    """Return the name that an attempt's object has, whoever creates it."""
    return f"d-{tag.job}-{tag.n}-{tag.a}"
