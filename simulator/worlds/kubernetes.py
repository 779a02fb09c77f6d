"""A cluster of Kubernetes' shape: names are taken once, and a deletion takes its time.

What it does is what real ones were seen to do: a second create under a name is refused, whoever
has it; a Job is created suspended; a deletion in the foreground is over once its pod is, one in
the background leaves the pod behind for a while, and an orphaning one for good; pods go, and why
they ended goes with them unless our finalizer keeps them; a pod on a lost node is shown as going
until its node is given up, while its process may go on computing; a restored etcd brings back
what was deleted, and says that it is another cluster.
"""

from __future__ import annotations

from dispatch.record.names import ENDED_STATES, Cause, ObjectState
from dispatch.schedulers.scheduler import Tag
from simulator.worlds.ground import Began, Doing, Process
from simulator.worlds.kubernetes_control import KubernetesControl
from simulator.worlds.kubernetes_objects import End, Row
from simulator.worlds.rows import STRANGER, Event

NODES_BACK = 0.3
"""How often a lost node comes back before its pods are given up."""

_DISRUPTIONS = (Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_SHUTDOWN, Cause.NODE_PRESSURE)


class KubernetesWorld(KubernetesControl):
    """The cluster, and what others do to it."""

    def befall(self, event: Event, ref: str, seconds: float) -> None:
        """Let something befall an object."""
        match event:
            case Event.PREEMPT:
                self.preempt(ref)
            case Event.LOSE_NODE:
                self.lose_node(ref, unnoticed_s=0.0)
            case Event.CUT_NODE:
                self.lose_node(ref, unnoticed_s=seconds)
            case Event.CANCEL:
                self.delete_outside(ref)
            case Event.HOLD:
                self.hold_outside(ref)
            case Event.REQUEUE:
                self.requeue_outside(ref)
            case Event.WAIT:
                self.wait_for_ever(ref, Cause.NO_CAPACITY)
            case Event.STUCK:
                self.stick(ref)
            case _:
                pass

    def raisable(self, job: str) -> list[str]:
        """Return the objects of a job that somebody could create again."""
        return [
            row.ref
            for row in self.rows.values()
            if row.tag.job == job and row.state in ENDED_STATES and not row.foreign
        ]

    def preempt(self, ref: str, cause: Cause | None = None) -> None:
        """End a running pod for others' sake: preemption, eviction, a drain, a node's pressure."""
        row = self.rows[ref]
        if row.state is not ObjectState.RUNNING:
            return
        if self._gated:
            cause = cause or self._chance.pick(_DISRUPTIONS)
            self._stage.counts[f"a pod is ended: {cause}"] += 1
            self._terminate(row, cause)
            return
        self._stage.counts["a place in the queue is taken away"] += 1
        # Kueue takes its place away, and gives it another when there is one.
        now = self._stage.now
        self.raised_at[ref] = now
        self._suspend(row._replace(doing=(Began.SCHEDULER, now, now)))

    # --- nodes --------------------------------------------------------------------------------

    def lose_node(self, ref: str, *, unnoticed_s: float) -> None:
        """Cut a pod's node off; its controllers notice it after a while, and then give it up."""
        row = self.rows[ref]
        process = self._ground.living.get(row.process)
        if row.end is not None or process is None or process.cut:
            return
        process.cut = True
        self._stage.tell("(kubernetes)", f"the node of {ref} can't be reached any more")
        self._stage.after(unnoticed_s, lambda: self._node_is_lost(ref, process))

    def _pod_of(self, ref: str, process: Process) -> Row | None:
        row = self.rows.get(ref)
        there = row is not None and row.process == process.number and row.end is None
        return row if there else None

    def _node_is_lost(self, ref: str, process: Process) -> None:
        process.missed_at = self._stage.now
        window = float(self.declared.node_loss_window_s)
        self._ground.kill_in(process, self._chance.span(0, window), "its lost node ends it")
        row = self._pod_of(ref, process)
        if row is not None:
            self._put(row._replace(going=Cause.NODE_LOST, lost=self._stage.now))
            self._stage.after(
                self._chance.span(5, 60), lambda: self._node_is_given_up(ref, process)
            )

    def _node_is_given_up(self, ref: str, process: Process) -> None:
        row = self._pod_of(ref, process)
        if row is None or row.going is None:
            return  # it is over, or a restore let it be forgotten
        if self._chance.hits(NODES_BACK):
            self._stage.tell("(kubernetes)", f"the node of {ref} comes back")
            process.cut = False
            self._stage.counts["a lost node comes back"] += 1
            row = self._put(row._replace(going=Cause.EVICTED, lost=None))
        self._pod_is_over(row)

    def stick(self, ref: str) -> None:
        """Let a running pod's end never come to an end, though nothing of it executes."""
        row = self.rows[ref]
        process = self._ground.living.get(row.process)
        if row.state is ObjectState.RUNNING and process is not None:
            self.stuck.add(ref)
            self._ground.kill(process, "it hangs in its end")
            self._put(row._replace(going=Cause.STOPPED_OUTSIDE))

    # --- what people do -----------------------------------------------------------------------

    def delete_outside(self, ref: str, how: str | None = None) -> None:
        """Let somebody delete it: in the foreground, in the background, as Orphan, or its pod."""
        row = self.rows[ref]
        if row.unchangeable:
            return
        how = how or self._chance.weighted(
            ((5, "background"), (3, "foreground"), (1, "orphan"), (2, "pod"))
        )
        self._stage.tell("(outside)", f"kubectl delete of {ref}: {how}")
        self._stage.counts[f"deleted outside: {how}"] += 1
        going = row.going or Cause.STOPPED_OUTSIDE
        if not row.process:
            self._let_go(row)
        elif how == "pod":
            self._terminate(row, going)
        elif how == "foreground":
            self._terminate(row._replace(deleting=True, replaced=False), going)
        else:
            self._free_name(row)
            row = row._replace(orphaned=True, suspended=False, replaced=False)
            if how == "orphan" and row.going is None:
                left = self._put(row)
                if row.process not in self._ground.living:
                    self._unknown_end(left)
            else:
                self._terminate(row, going)

    def hold_outside(self, ref: str) -> None:
        """Let somebody else suspend it."""
        row = self.rows[ref]
        if row.unchangeable:
            return
        self._stage.counts["suspended outside"] += 1
        if not row.suspended:
            self._suspend(row._replace(by_others=True))
        elif not self._gated:
            self._put(row._replace(by_others=True))

    def release_outside(self, ref: str) -> None:
        """Let somebody else resume it, whoever suspended it; it isn't counted."""
        row = self.rows[ref]
        if row.suspended and not row.unchangeable:
            self.raised_at[ref] = self._stage.now
            self._resume(row, self._others(), counted=False)

    def requeue_outside(self, ref: str) -> None:
        """Let somebody run it again: resumed, suspended and resumed, or made anew."""
        row = self.rows[ref]
        if row.end is not None:
            self._recreate(row)
        elif not row.unchangeable:
            self.hold_outside(ref)
            self.release_outside(ref)

    def _recreate(self, row: Row) -> None:
        """Let somebody write the same manifest again, under the same name: a new object."""
        if row.foreign or self._names.get(row.name, row.ref) != row.ref:
            return
        self._free_name(row)
        if not row.orphaned:
            if self.traits.keeps_evidence and not row.recorded:
                self._put(row._replace(orphaned=True, deleting=False))
            else:
                self._remove(row)
        again = self.add(row.tag, foreign=row.foreign, doing=self._others(), suspended=False)
        self.raised_at[again.ref] = self._stage.now
        self._stage.tell("(outside)", f"{again.ref} is made anew after {row.ref}")

    def _others(self) -> Doing:
        return Began.OUTSIDE, self._stage.now, self._stage.now

    def wait_for_ever(self, ref: str, cause: Cause) -> None:
        """Let a pod wait for something that doesn't go away by itself."""
        row = self.rows[ref]
        if row.state is ObjectState.PENDING and not row.suspended and not row.unchangeable:
            self._put(row._replace(waits=cause))

    def heal(self) -> None:
        """Let everything that isn't of our doing go its way: suspensions, and what waits."""
        for row in list(self.rows.values()):
            healed = row if row.waits is None else self._put(row._replace(waits=None))
            if row.suspended and row.by_others:
                self.release_outside(row.ref)
            else:
                self._kick(healed)

    def stranger(self) -> None:
        """Let somebody's Job come, with labels of its own."""
        tag = Tag(STRANGER, 1, len(self.rows) + 1, "0" * 64, 0)
        self.add(tag, foreign=True, doing=self._others(), suspended=False)

    def purge(self, row: Row) -> None:
        """Let an administrator delete it for good, finalizers and all."""
        for process in self._ground.of(row.ref):
            self._ground.kill(process, "it is purged")
        self._remove(row)

    # --- what etcd forgets --------------------------------------------------------------------

    def crash(self, lost_s: float, down_s: float) -> None:
        """Let the API server fail for a while, and etcd lose its newest changes."""
        self.down_until = self._stage.now + down_s
        lost_s = min(lost_s, self.traits.save_lag_s)
        self._stage.tell("(kubernetes)", f"etcd crashes and loses {lost_s:.1f} s")
        self._undo(lost_s, Began.UNDONE)

    def restore(self, lost_s: float, down_s: float) -> None:
        """Let somebody restore etcd from a backup: it is another cluster from then on."""
        self.down_until = self._stage.now + down_s
        number = int(self.identity.rsplit("-", 1)[1]) + 1
        self.identity = f"{self.declared.cluster}-{number}"
        self._stage.tell("(outside)", f"etcd is restored as it was {lost_s:.0f} s ago")
        self._undo(lost_s, Began.OUTSIDE)

    def _undo(self, lost_s: float, began: Began) -> None:
        """Go back; what leaves no trace anywhere, beside a lost node, isn't played."""
        now = self._stage.now
        undone: dict[str, Row | None] = {}
        while self._journal and self._journal[-1][0] > now - lost_s:
            _, ref, before = self._journal.pop()
            if not any(process.cut for process in self._ground.of(ref)):
                undone[ref] = before
        for ref, before in undone.items():
            after = self.rows.pop(ref, None)
            if after is not None:
                self._free_name(after)
            known = 0 if before is None else before.process
            for process in self._ground.of(ref):
                if process.number != known:
                    self._ground.kill(process, "its kubelet finds no pod for it")
        for row in undone.values():
            if row is not None:
                self._reconcile(row, began)

    def _reconcile(self, row: Row, began: Began) -> None:
        """Take a Job up again where etcd left it."""
        if not row.orphaned and row.name not in self._names:
            self._names[row.name] = row.ref
        self._stage.tell("(kubernetes)", f"{row.ref} is {row.state} again")
        # An undone end is run again by the same right as before; what a person restores, by his.
        by_right = row.doing[2] if began is Began.UNDONE else self._stage.now
        doing = (began, self._stage.now, by_right)
        if row.held or (began is Began.UNDONE and (not row.process or row.doing[0] != Began.OURS)):
            doing = row.doing
        self._stamp += 1
        row = self.rows[row.ref] = row._replace(stamp=self._stamp, doing=doing)
        if began is Began.OUTSIDE or row.foreign:
            self.raised_at[row.ref] = self._stage.now
        if row.end is not None:
            self._later(row, float(self.declared.retention_s), self._live_out)
        elif not row.process:
            self._kick(row)
        elif row.process in self._ground.living:
            if row.going is not None:
                self._terminate(row, row.going)
        elif row.going is not None or self._chance.hits(0.4):
            self._unknown_end(row)
        else:
            self._later(row, self._chance.span(1, 10), self._run)

    def _unknown_end(self, row: Row) -> None:
        """Let its kubelet find soon that its process ended, it can't say how.

        Whoever suspends or resumes it meanwhile gets a new pod all the same.
        """

        def found() -> None:
            current = self.rows.get(row.ref)
            if current is None or current.process != row.process or current.end is not None:
                return
            goes_on = current.suspended or current.replaced
            if goes_on and not (current.deleting or current.orphaned):
                self._pod_is_over(current)
            else:
                self._ends(current, End(ObjectState.FAILED, Cause.LOST, None, self._stage.now))

        self._stage.after(self._chance.span(1, 10), found)
