"""A cluster of Slurm's shape: it requeues in place, forgets, and recycles its ids.

What it does is what real ones were seen to do: a job is forgotten soon after it ended, while
accounting learns late and may say something else; a controller that crashes loses its last
seconds, so that an accepted job vanishes and its id goes to the next, and an end is undone and
the job runs again with the same restarts; a node that is lost may go on computing.
"""

from __future__ import annotations

from dispatch.errors import CallRefused, Unsupported
from dispatch.record.evidence import Sighting
from dispatch.record.names import ENDED_STATES, Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import Started, StartOrder, StartRefused, Tag
from simulator.chance import Chance
from simulator.stage import Stage
from simulator.worlds.ground import Began, Doing, Ground, Process
from simulator.worlds.rows import LIVE, STRANGER, Event, Row, Rows, Traits

FIRST_SUBMIT = 1_767_225_600
"""The stage's beginning as Slurm counts seconds."""


class SlurmWorld(Rows):
    """The controller's view, and what happens to it."""

    name = "slurm"

    def __init__(self, stage: Stage, chance: Chance, ground: Ground, traits: Traits) -> None:
        super().__init__(stage, chance, ground, traits)
        self._next_number = self._fresh_number = 1000
        self._stopped: set[str] = set()
        self._accounts: dict[str, list[tuple[float, Row]]] = {}
        self._tags: dict[str, Tag] = {}

    # --- calls that land ----------------------------------------------------------------------

    def start(self, order: StartOrder, decided_at: float) -> Started | StartRefused:
        """Accept a submission, held, or refuse it."""
        if order.spec.queue == "nowhere" or self.chance.hits(self.traits.start_refusal):
            return StartRefused(Cause.START_REFUSED, "2000: invalid partition")
        return Started(self.add(order.tag, decided_at=decided_at).ref)

    def add(self, tag: Tag, *, foreign: bool = False, decided_at: float = 0.0) -> Row:
        """Put a new job into the queue."""
        number = self._next_number
        if number < self._fresh_number:
            self.stage.counts["an id that was another's is given again"] += 1
        self._next_number += 1
        self._fresh_number = max(self._fresh_number, self._next_number)
        ref = f"{self.declared.cluster}/{number}/{FIRST_SUBMIT + int(self.stage.now)}"
        while ref in self._tags:
            ref += "+"
        gated = self.declared.can(Capability.GATED_START)
        row = Row(
            ref, str(number), tag, held=gated, foreign=foreign, may_requeue=self.traits.requeues
        )
        if not gated:
            row = row._replace(doing=(Began.OURS, self.stage.now, decided_at))
        self.by_key[row.key] = ref
        self._tags[ref] = tag
        row = self.put(row)
        self.kick(row)
        return row

    def stop(self, ref: str) -> None:
        """Cancel whatever has this id."""
        row = self.at(ref)
        if row is not None:
            self._stopped.add(row.ref)
            self._cancel(row, Cause.STOPPED)

    def hold(self, ref: str) -> None:
        """Hold what is pending; a running one goes on, unless holding means to requeue."""
        row = self._known(ref)
        if row.state in ENDED_STATES:
            raise CallRefused("2021: it has ended")
        if row.state is ObjectState.PENDING:
            self.put(row._replace(held=True))
        elif row.state is ObjectState.RUNNING:
            if not self.declared.can(Capability.HOLD_RUNNING):
                raise Unsupported("it runs, and this cluster can't hold what runs")
            self._requeue(row, row.doing, held=True)

    def release(self, ref: str, decided_at: float) -> None:
        """Lift a hold that isn't another's."""
        row = self._known(ref)
        if row.holder is not None and row.held:
            raise CallRefused("2002: access denied")
        if row.state is ObjectState.PENDING and row.held:
            doing = (Began.OURS, self.stage.now, decided_at)
            self.kick(self.put(row._replace(held=False, doing=doing)))

    def requeue(self, ref: str, restarts: int, decided_at: float) -> None:
        """Requeue what runs, or what has ended.

        Which run is meant can't be told: one that lands late meets whichever there is then.
        """
        row = self._known(ref)
        if row.state in (ObjectState.PENDING, ObjectState.ENDING):
            raise CallRefused("2021: it isn't running")
        final = row.state is ObjectState.SUCCEEDED or row.cause is Cause.STOPPED
        if final and self.traits.requeue_guarded:
            raise CallRefused("2021: it is complete")
        self._requeue(row._replace(may_requeue=True), (Began.OURS, self.stage.now, decided_at))

    def _known(self, ref: str) -> Row:
        row = self.at(ref)
        if row is None:
            raise CallRefused("2017: invalid job id")
        return row

    def acknowledge(self, ref: str) -> None:
        """Nothing is kept for us here."""

    # --- accounting ---------------------------------------------------------------------------

    def known_before(self, ref: str, when: float) -> bool:
        """Return whether accounting, if there is one, knew of a job's end before a true time."""
        has = self.declared.can(Capability.LOOKUP)
        return has and any(since <= when for since, _ in self._accounts.get(ref, ()))

    def account(self, ref: str) -> Sighting | None:
        """Return the newest end that accounting has learnt of."""
        known = [row for since, row in self._accounts.get(ref, ()) if since <= self.stage.now]
        if len(known) < len(self._accounts.get(ref, ())):
            self.stage.counts["accounting is asked before it has learnt of an end"] += 1
        return self.seen(known[-1], "accounting") if known else None

    def accounted_attempt(self, tag: Tag) -> Sighting | None:
        """Return the newest end of an attempt's object that accounting has learnt of."""
        for ref, seen in self._tags.items():
            found = self.account(ref) if seen == tag else None
            if found is not None:
                return found
        return None

    def ended(self, row: Row) -> None:
        """Let accounting learn of an end, late; of its cause it may say something else."""
        late = self.chance.span(0.0, float(self.declared.lookup_lag_s))
        if row.cause is Cause.STOPPED_OUTSIDE and self.chance.hits(0.3):
            self.stage.counts["accounting gives another cause"] += 1
            row = row._replace(cause=Cause.STOPPED)
        self._accounts.setdefault(row.ref, []).append((self.stage.now + late, row))

    # --- what happens to a row ----------------------------------------------------------------

    def _cancel(self, row: Row, cause: Cause) -> None:
        process = self.process_of(row)
        if row.state is ObjectState.PENDING:
            self.end(row, ObjectState.FAILED, cause)
        elif row.state is ObjectState.RUNNING and process is not None and process.cut:
            self.end(row, ObjectState.FAILED, cause, lost=self.stage.now)
            self.outlive(process)
        elif row.state is ObjectState.RUNNING:
            row = self.put(row._replace(state=ObjectState.ENDING))
            self.later(row, self.chance.span(0.5, 8), lambda late: self.finish(late, cause))

    def _requeue(self, row: Row, doing: Doing, *, held: bool = False) -> None:
        """Requeue in two steps: first the old run is ended, then it waits for its place.

        A run whose node was lost after the look that decided this is thought ended, and nothing
        tells of it later.
        """
        seen = row.lost is not None and row.lost <= doing[2]
        unseen = doing[0] is Began.OURS and not seen

        def second(late: Row) -> None:
            process = self.process_of(late)
            if process is not None and not process.cut:
                self.ground.kill(process, "it is requeued")
            elif process is not None:
                process.hidden = unseen
                self.outlive(process)
            again = self.put(
                late._replace(
                    state=ObjectState.PENDING,
                    cause=None,
                    restarts=late.restarts + 1,
                    held=held,
                    holder=None,
                    process=0,
                    doing=doing,
                    started=None,
                    ended=None,
                    lost=None,
                    exit_code=None,
                )
            )
            self.kick(again)

        if doing[0] in (Began.OUTSIDE, Began.SCHEDULER):
            self.raised_at[row.ref] = doing[1]
        if row.state is ObjectState.RUNNING:
            row = self.put(row._replace(state=ObjectState.ENDING))
            self.later(row, self.chance.span(0.5, 6), second)
        else:
            second(row)

    # --- what others do -----------------------------------------------------------------------

    def befall(self, event: Event, ref: str, seconds: float) -> None:
        """Let something befall an object."""
        row = self.rows[ref]
        match event:
            case Event.PREEMPT:
                self.preempt(row)
            case Event.LOSE_NODE:
                self.lose_node(row, 0.0)
            case Event.CUT_NODE:
                self.lose_node(row, seconds)
            case Event.CANCEL:
                self._cancel(row, Cause.STOPPED_OUTSIDE)
            case Event.HOLD if row.state is ObjectState.PENDING:
                self.put(row._replace(held=True, holder="operator"))
            case Event.REQUEUE if row.state not in (ObjectState.PENDING, ObjectState.ENDING):
                self._requeue(row, (Began.OUTSIDE, self.stage.now, self.stage.now))
            case Event.WAIT:
                self.wait_for_ever(ref, Cause.NO_CAPACITY)
            case Event.STUCK:
                self.stick(ref)
            case _:
                pass

    def raisable(self, job: str) -> list[str]:
        """Return the ended objects of a job that somebody could start again."""
        return [
            row.ref
            for row in self.rows.values()
            if row.tag.job == job and row.state in ENDED_STATES and not row.foreign
        ]

    def preempt(self, row: Row) -> None:
        """Take a running job's place away."""
        if row.state is not ObjectState.RUNNING:
            return
        if row.may_requeue:
            self._requeue(row, (Began.SCHEDULER, self.stage.now, self.stage.now))
            return
        row = self.put(row._replace(state=ObjectState.ENDING))
        self.later(row, self.chance.span(0.5, 5), lambda late: self.finish(late, Cause.PREEMPTED))

    def lose_node(self, row: Row, unnoticed_s: float) -> None:
        """Cut a running job's node off; the controller notices it after a while."""
        process = self.process_of(row)
        if row.state is not ObjectState.RUNNING or process is None:
            return
        process.cut = True
        self.stage.tell("(slurm)", f"the node of {row.ref} can't be reached any more")

        def noticed() -> None:
            process.missed_at = self.stage.now
            current = self.rows.get(row.ref)
            if current is None or current.process != process.number:
                return
            if current.state not in (ObjectState.RUNNING, ObjectState.ENDING):
                return
            self.outlive(process)
            now = self.stage.now
            if current.may_requeue:
                failed = current._replace(state=ObjectState.FAILED)
                self._requeue(failed, (Began.SCHEDULER, now, now))
            else:
                self.end(current, ObjectState.FAILED, Cause.NODE_LOST, lost=now)

        self.stage.after(unnoticed_s, noticed)

    def stranger(self) -> None:
        """Let somebody who isn't Dispatch submit a job; it takes the next id."""
        row = self.add(Tag(STRANGER, 1, 1, "0" * 64, 0), foreign=True)
        self.later(row, self.chance.span(20, 400), self.forget)

    # --- a crash of the controller ------------------------------------------------------------

    def crash(self, lost_s: float, down_s: float) -> None:
        """Let the controller crash: it comes back without its newest changes.

        What it forgets beside a lost node leaves no trace anywhere, so that isn't played.
        """
        now = self.stage.now
        self.down_until = self.began = now + down_s
        self.stage.tell("(slurm)", f"the controller crashes and loses {lost_s:.1f} s")
        undone: dict[str, Row | None] = {}
        while self.journal and self.journal[-1][0] > now - lost_s:
            _, ref, before = self.journal.pop()
            if not any(process.cut for process in self.ground.of(ref)):
                undone[ref] = before
        for ref, before in undone.items():
            after = self.rows.pop(ref, None)
            if before is not None and before.process and ref in self._stopped:
                self.stage.counts["a cancel that was acknowledged is undone"] += 1
            if before is not None:
                self.stage.tell("(slurm)", f"{ref} is {before.state} again")
                self._reconcile(before)
            elif after is not None:
                self._vanish(after)

    def _vanish(self, row: Row) -> None:
        self.stage.tell("(slurm)", f"{row.ref} was never accepted; its id is free")
        self.stage.counts["a job that was accepted vanishes"] += 1
        if self.by_key.get(row.key) == row.ref:
            del self.by_key[row.key]
        self._next_number = min(self._next_number, int(row.key))
        for process in self.ground.of(row.ref):
            self.outlive(process)

    def _reconcile(self, row: Row) -> None:
        """Take a row up again where the saved state left it."""
        self.by_key[row.key] = row.ref
        process = self.process_of(row)
        for other in self.ground.of(row.ref):
            if other is process or other.cut:
                continue
            if row.state is ObjectState.PENDING and row.held:
                self._orphan(other)
            else:
                self.ground.kill(other, "the controller doesn't know it")
        self._stamp += 1
        row = self.rows[row.ref] = row._replace(stamp=self._stamp)
        if row.foreign:
            self.raised_at[row.ref] = self.stage.now
        if row.state is ObjectState.PENDING:
            self.kick(row)
        elif row.state in ENDED_STATES:
            self.later(row, float(self.declared.retention_s), self.forget)
        elif process is None:
            self._rerun_or_report(row)
        elif row.state is ObjectState.ENDING:
            self.later(row, 2.0, lambda late: self.finish(late, Cause.STOPPED))

    def _orphan(self, process: Process) -> None:
        """Let a run that was forgotten with its release go on until its node registers again.

        Where the release isn't forgotten, a real controller starts it again beside the old run:
        that is its own doing and isn't played.
        """
        seconds = self.chance.span(0, float(self.declared.save_window_s))
        self.ground.kill_in(process, seconds, "the controller doesn't know it")

    def _rerun_or_report(self, row: Row) -> None:
        """Run again what had ended, as real ones do, or find out that its node lost it."""
        if self.chance.hits(0.6):
            self.stage.counts["an undone end runs again with the same restarts"] += 1
            doing = row.doing
            if doing[0] is Began.OURS:
                doing = (Began.UNDONE, self.stage.now, row.doing[2])
            again = self.put(row._replace(state=ObjectState.PENDING, process=0, doing=doing))
            self.later(again, self.chance.span(0.5, 10), self.run)
        else:
            self.later(row, self.chance.span(1, 10), self._report)

    def _report(self, row: Row) -> None:
        self.end(row, ObjectState.FAILED, Cause.NODE_LOST, lost=self.stage.now)


__all__ = ["LIVE", "SlurmWorld"]
