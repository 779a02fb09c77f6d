"""Everything that can go wrong at once on a real Slurm, in an order that a seed decides."""

from __future__ import annotations

import heapq
import itertools
import multiprocessing
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from uuid import uuid4

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.operator import Operator, Submit
from dispatch.record.header import Spec
from dispatch.record.names import IntentKind
from dispatch.store.sqlite import SqliteRecords
from dispatch.supervisor.health import MASS_LOSS, accept_loss
from tests.real.slurm.mortal import Told, supervise
from tests.real.slurm.proxy import Trouble, is_call, none
from tests.real.slurm.real import RealSlurm, until
from tests.real.slurm.terms import BOUNDS, CUT_OFF_S, FORGIVING, KINDS, PATIENT
from tests.real.slurm.truth import SCRIPT, Kill
from tests.real.slurm.world import SlurmWorld


class Chaos:
    """One world, its jobs, two supervisors that die, and what happens to them."""

    def __init__(
        self, real: RealSlurm, seed: int, jobs: int, folder: Path, *, closed: bool = False
    ) -> None:
        self.real = real
        self.closed = closed
        self.seed = seed
        self.jobs = jobs
        self.chance = Random(seed)
        self.folder = folder
        self.truth = real.base / "work" / f"chaos-{seed}"
        shutil.rmtree(self.truth, ignore_errors=True)
        self.truth.mkdir()
        self.truth.chmod(0o1777)
        # Without Slurm's own fence: what keeps a job from running twice is the protocol alone.
        self.world = SlurmWorld(
            real, name=f"chaos{seed}", singleton=False, bounds=BOUNDS, workdir=str(self.truth)
        )
        self.store = SqliteRecords(folder / "records.db", lambda: uuid4().hex, busy_s=30)
        self.operator = Operator(self.store, self.clock, lambda tries: time.sleep(0.05 * tries))
        self.kinds: dict[str, str] = {}
        self.happened: Counter[str] = Counter()
        self.kills: list[Kill] = []
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._held: list[str] = []
        self._cut_off = 0
        self._accepted_until = 0.0
        self._log = (folder / "events.log").open("w", buffering=1)
        self._processes: dict[str, BaseProcess] = {}
        self._lives: Counter[str] = Counter()
        self._mortal = True
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(["tests.real.slurm.mortal"])

    def clock(self) -> datetime:
        return datetime.now(UTC)

    def say(self, what: str) -> None:
        self._log.write(f"{time.time():.3f} {what}\n")

    # --- jobs -------------------------------------------------------------------------------

    def submit(self) -> None:
        """Submit one more job."""
        number = len(self.kinds)
        kind = self.chance.choice(KINDS)
        beats = 100_000 if kind == "stubborn" else self.chance.randint(2, 16)
        env = {
            "TRUTH": str(self.truth),
            "KIND": kind,
            "BEATS": str(beats),
            "EXIT": {"bad": "3", "flaky": "7"}.get(kind, "0"),
        }
        wanted = Submit(
            idempotency_key=f"chaos-{self.seed}-{number}",
            spec=Spec(name=f"{kind}-{number}", script=SCRIPT, env=env, output="/dev/null"),
            plan=FORGIVING if kind == "flaky" else PATIENT,
            declarations=self.world.scheduler.declare(),
            start_retries=50,
        )
        self.kinds[self.operator.submit(wanted, by="ann").job_id] = kind

    def folded(self, job_id: str) -> Job:
        return fold(self.store.read(job_id), self.clock())

    def intend(self, kind: IntentKind, job_id: str) -> None:
        self.say(f"intent {kind} {job_id}")
        self.operator.intend(job_id, kind, intent_id=uuid4().hex, by="ann")
        self.happened[f"a person asked to {kind}"] += 1

    # --- supervisors ------------------------------------------------------------------------

    def raise_dead(self) -> None:
        """Start the supervisors that died; one that failed is a fault."""
        for who in ("supervisor-1", "supervisor-2"):
            process = self._processes.get(who)
            if process is not None and process.is_alive():
                continue
            if process is not None:
                assert process.exitcode == -signal.SIGKILL, self.log_of_supervisors()
                self.happened["a supervisor was killed"] += 1
            self._lives[who] += 1
            told = Told(
                cluster=self.world.settings.model_dump_json(),
                key=str(self.real.base / "jwt.key"),
                records=str(self.folder / "records.db"),
                log=str(self.folder / "supervisors.log"),
                who=who,
                seed=self.seed * 1000 + self._lives[who],
                dies=self._mortal,
            )
            process = self._forks.Process(target=supervise, args=(told,), daemon=True)
            process.start()
            self._processes[who] = process

    def kill_supervisors(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.join()

    def log_of_supervisors(self) -> str:
        path = self.folder / "supervisors.log"
        return path.read_text() if path.exists() else ""

    # --- the course of it -------------------------------------------------------------------

    def run(self, events: int) -> None:
        """Let everything happen: each kind of event at least once, all in random order."""
        menu = [*self._menu()]
        order = menu[:]
        order += self.chance.choices(menu, k=max(0, events - len(menu)))
        self.chance.shuffle(order)
        batch = -(-self.jobs // max(1, len(order) // 2))
        self.raise_dead()
        for event in order:
            for _ in range(min(batch, self.jobs - len(self.kinds))):
                self.submit()
            event()
            self.pass_s(self.chance.uniform(0.2, 1.6))
        while len(self.kinds) < self.jobs:
            self.submit()

    def pass_s(self, seconds: float) -> None:
        """Let time pass; what is due meanwhile happens, and the dead are raised."""
        ends = time.monotonic() + seconds
        while True:
            while self._due and self._due[0][0] <= time.monotonic():
                heapq.heappop(self._due)[2]()
            self.raise_dead()
            self._accept_losses()
            if time.monotonic() >= ends:
                return
            time.sleep(0.1)

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), do))

    def calm(self) -> None:
        """Undo everything that was done, and let nobody die any more."""
        self.say("calm")
        self.world.proxy.choose = none
        while self._due:
            heapq.heappop(self._due)[2]()
        self.real.heal()
        for node in self._nodes("down,drain,fail"):
            self._shell("scontrol", "update", f"nodename={node}", "state=resume")
        self._shell("scancel", "--user=other")
        for held in self._held:
            self._shell("scontrol", "release", held)
        self._mortal = False
        self.kill_supervisors()
        self.raise_dead()
        for job_id, kind in self.kinds.items():
            job = self.folded(job_id)
            if job.user_hold is not None and job.ending is None:
                self.intend(IntentKind.RELEASE, job_id)
            if kind == "stubborn" and job.ending is None:
                self.intend(IntentKind.CANCEL, job_id)

    def settle(self, patience_s: float) -> None:
        """Wait until every job is settled; a person answers what asks."""
        ends = time.monotonic() + patience_s
        open_jobs = list(self.kinds)
        while open_jobs and time.monotonic() < ends:
            self.pass_s(1.0)
            jobs = [self.folded(job_id) for job_id in open_jobs]
            for job in jobs:
                if job.recovery is not None:
                    self.intend(IntentKind.RESUBMIT, job.job_id)
            open_jobs = [job.job_id for job in jobs if job.settled_at is None]
        # What the scheduler raises of a settled job is stopped (row 0): give that its time.
        until(lambda: not self._ours_live(), "nothing of ours is left in Slurm", 60)
        self.kill_supervisors()

    def _accept_losses(self) -> None:
        health = self.store.get_health(self.world.settings.name)
        if health is None or not dict(health.escalations).get(MASS_LOSS):
            return
        if time.monotonic() >= self._accepted_until:
            self._accepted_until = time.monotonic() + 5
            self.say("accept the loss")
            self.happened["a person believed that many jobs were lost at once"] += 1
            accept_loss(self.store, self.world.settings.name, by="ann", at=self.clock())

    def close(self) -> None:
        self.kill_supervisors()
        self.store.close_file()
        self._log.close()
        self.world.close()

    # --- what happens -----------------------------------------------------------------------

    def _menu(self) -> list[Callable[[], None]]:
        return [
            self._lose_replies,
            self._lose_replies,
            self._swallow_requests,
            self._cut_lists,
            self._kill_slurmctld,
            self._kill_slurmctld,
            self._freeze_slurmctld,
            self._kill_slurmrestd,
            self._kill_slurmdbd,
            self._kill_slurmd,
            self._cut_node_off,
            self._take_node_down,
            self._preempt,
            self._preempt,
            self._requeue_outside,
            self._requeue_outside,
            self._cancel_outside,
            self._cancel_outside,
            self._hold_outside,
            self._rewrite_comment,
            self._stranger,
            self._intent_cancel,
            self._intent_hold,
            self._intent_requeue,
            self._intent_resubmit,
            self._kill_supervisor,
        ]

    def _did(self, what: str, detail: object = "") -> None:
        self.happened[what] += 1
        self.say(f"{what} {detail}")

    def _trouble(self, what: Trouble, share: float, where: Callable[[str, str], bool]) -> None:
        chance = Random(self.chance.random())

        def choose(method: str, path: str) -> Trouble:
            if not where(method, path) or chance.random() >= share:
                return Trouble.NONE
            self._did(
                {
                    "LOSE_REPLY": "a reply was lost after its call took effect",
                    "SWALLOW": "a request was lost",
                    "CUT_REPLY": "a list was cut",
                }[what.name],
                f"{method} {path}",
            )
            return what

        self.world.proxy.choose = choose
        self.later(self.chance.uniform(2, 5), self._trouble_over)

    def _trouble_over(self) -> None:
        self.world.proxy.choose = none

    def _lose_replies(self) -> None:
        self._trouble(Trouble.LOSE_REPLY, 0.6, is_call)

    def _swallow_requests(self) -> None:
        self._trouble(Trouble.SWALLOW, 0.3, lambda method, path: True)

    def _cut_lists(self) -> None:
        self._trouble(
            Trouble.CUT_REPLY, 0.5, lambda method, path: path.partition("?")[0].endswith("/jobs/")
        )

    def _kill_slurmctld(self) -> None:
        self._did("slurmctld was killed")
        self.real.kill("slurmctld")
        at = time.time()
        self.pass_s(self.chance.choice((0, 0, 0.5, 3)))
        if self.closed:
            self.real.start_controller_closed()
            return
        self.real.start("slurmctld")
        until(self.real.controller_answers, "slurmctld answers again")
        self.kills.append(Kill(at, time.time(), BOUNDS.save_window_s))

    def _freeze_slurmctld(self) -> None:
        self._did("slurmctld was frozen")
        self.real.signal("slurmctld", signal.SIGSTOP)
        self.pass_s(self.chance.uniform(2, 6))
        self.real.signal("slurmctld", signal.SIGCONT)
        until(self.real.controller_answers, "slurmctld answers again")

    def _kill_slurmrestd(self) -> None:
        self._restarted("slurmrestd", self.chance.uniform(0.1, 3))

    def _kill_slurmdbd(self) -> None:
        self._restarted("slurmdbd", self.chance.uniform(1, 10))

    def _kill_slurmd(self) -> None:
        self._restarted(self.chance.choice(("n1", "n2", "n3")), self.chance.uniform(0.1, 3))

    def _restarted(self, name: str, seconds: float) -> None:
        if not self.real.daemon(name):
            return
        self._did("slurmd was killed" if name.startswith("n") else f"{name} was killed", name)
        self.real.kill(name)
        self.later(seconds, lambda: self._start(name))

    def _start(self, name: str) -> None:
        if not self.real.daemon(name):
            self.say(f"start {name}")
            self.real.start(name)

    def _cut_node_off(self) -> None:
        """Long enough for Slurm to give its jobs up while they run on; one node, a few times."""
        if self._cut_off >= max(1, self.jobs // 100) or not self.real.daemon("n4"):
            return
        self._cut_off += 1
        for _ in range(30):
            if self._shell("squeue", "-h", "-u", "trainer", "-t", "running", "-w", "n4"):
                break
            self.pass_s(0.3)
        self._did("a node was cut off, and its jobs ran on")
        self.real.kill("n4")
        self.later(CUT_OFF_S, lambda: self._start("n4"))

    def _take_node_down(self) -> None:
        node = self.chance.choice(("n1", "n2", "n3"))
        self._did("a node was taken down", node)
        self._shell("scontrol", "update", f"nodename={node}", "state=down", "reason=chaos")
        self.later(
            self.chance.uniform(1, 5),
            lambda: self._shell("scontrol", "update", f"nodename={node}", "state=resume"),
        )

    def _preempt(self) -> None:
        node = self.chance.choice(("n1", "n2", "n3"))
        self._did("jobs were preempted", node)
        urgent = ("-A", "physics", "-p", "urgent", "-w", node, "-c", "4", "--wrap", "sleep 1")
        self._shell("sbatch", "-o", "/dev/null", *urgent, user="other")

    def _requeue_outside(self) -> None:
        for job_id in self._some("running", 2):
            self._did("a job was requeued from the shell", job_id)
            self._shell("scontrol", "update", f"jobid={job_id}", "requeue=1")
            self._shell("scontrol", "requeue", job_id)

    def _cancel_outside(self) -> None:
        user = self.chance.choice((None, "trainer"))
        for job_id in self._some("running,pending", 2):
            self._did(f"a job was cancelled from the shell by {user or 'root'}", job_id)
            self._shell("scancel", job_id, user=user)

    def _hold_outside(self) -> None:
        user = self.chance.choice((None, None, "trainer"))
        for job_id in self._some("pending", 2):
            self._did(f"a job was held from the shell by {user or 'root'}", job_id)
            self._shell("scontrol", "hold", job_id, user=user)
            # What its user holds stays held, as Slurm shows it, until somebody releases it there.
            self._held.append(job_id)
            if user is None:
                self.later(
                    self.chance.uniform(2, 8),
                    partial(self._shell, "scontrol", "release", job_id),
                )

    def _rewrite_comment(self) -> None:
        for job_id in self._some("running,pending", 3):
            self._did("a user rewrote the comment and name of a job", job_id)
            change = ("update", f"jobid={job_id}", "comment=mine", "name=mine")
            self._shell("scontrol", *change, user="trainer")

    def _stranger(self) -> None:
        self._did("others submitted jobs")
        for _ in range(3):
            self._shell(
                "sbatch", "-o", "/dev/null", "-J", "theirs", "--wrap", "sleep 2", user="other"
            )

    def _intent(self, kind: IntentKind) -> str | None:
        live = [job_id for job_id in self.kinds if self.folded(job_id).ending is None]
        if not live:
            return None
        job_id = self.chance.choice(live)
        self.intend(kind, job_id)
        return job_id

    def _intent_cancel(self) -> None:
        for _ in range(2):
            self._intent(IntentKind.CANCEL)

    def _intent_hold(self) -> None:
        held = self._intent(IntentKind.HOLD)
        if held is not None:
            self.later(self.chance.uniform(1, 10), lambda: self.intend(IntentKind.RELEASE, held))

    def _intent_requeue(self) -> None:
        self._intent(IntentKind.REQUEUE)

    def _intent_resubmit(self) -> None:
        self._intent(IntentKind.RESUBMIT)

    def _kill_supervisor(self) -> None:
        process = self._processes[self.chance.choice(sorted(self._processes))]
        process.kill()
        process.join()

    # --- the shell --------------------------------------------------------------------------

    def _shell(self, *words: str, user: str | None = None) -> str:
        return self.real.run(*words, user=user, check=False)

    def _nodes(self, states: str) -> list[str]:
        shown = self._shell("sinfo", "-h", "-N", "-p", "main", "-t", states, "-o", "%N")
        return sorted(set(shown.split()))

    def _some(self, states: str, most: int) -> list[str]:
        """Return Slurm's ids of some of our live jobs."""
        ids = self._shell("squeue", "-h", "-u", "trainer", "-t", states, "-o", "%i").split()
        return self.chance.sample(ids, min(most, len(ids)))

    def _ours_live(self) -> bool:
        return bool(self._shell("squeue", "-h", "-u", "trainer"))
