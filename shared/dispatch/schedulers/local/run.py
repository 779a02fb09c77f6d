"""One run of an object: its tasks, what ends them, and what that was."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from dispatch.record.names import Cause
from dispatch.schedulers.local import life as lives
from dispatch.schedulers.local import memory, processes, spool
from dispatch.schedulers.local.life import Ask, End, Life, Order
from dispatch.schedulers.local.processes import Process

IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
"""What a runner ignores and its tasks don't."""

_TICK_S = 1.0
_KILL_TICK_S = 0.02
_LOOPBACK = "127.0.0.1"
_SHELL_NOT_FOUND = 127
_SHELL_NOT_EXECUTABLE = 126


@dataclass(slots=True)
class Task:
    """One rank's first process."""

    rank: int
    node: int
    process: Process
    starter: subprocess.Popen[bytes]
    status: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended, and not well."""
        return bool(self.status)


class LaunchError(Exception):
    """A task couldn't be started."""

    def __init__(self, end: End) -> None:
        super().__init__(end.reason)
        self.end = end


class Run:
    """One run of an object: from its first process to the last one's end."""

    def __init__(self, order: Order, restarts: int, limiter: memory.Limiter) -> None:
        self.verdict: End | None = None
        self.asked = False
        self._order = order
        self._restarts = restarts
        self._limiter = limiter
        self._tasks: list[Task] = []
        self._kill_at_s: float | None = None
        self._until_s = (
            None if order.time_limit_s is None else processes.uptime_s() + order.time_limit_s
        )

    # --- start ---

    def launch(self, outputs: list[Path]) -> None:
        """Start every task; what can't be started ends the run."""
        try:
            environment = self._environment()
            workdir = self._workdir()
            for node in range(self._order.nodes):
                with outputs[node].open("ab") as output:
                    for local in range(self._order.tasks_per_node):
                        self._start(node, local, output.fileno(), (environment, workdir))
        except LaunchError as problem:
            self.verdict = problem.end
        except OSError as problem:
            self.verdict = End(Cause.LAUNCH_FAILED, str(problem))

    def _start(
        self, node: int, local: int, output: int, shared: tuple[dict[str, str], str]
    ) -> None:
        order = self._order
        rank = node * order.tasks_per_node + local
        environment, workdir = shared
        argv = list(order.command) if order.command else [str(Path("script").resolve())]
        join = self._limiter.join(node)

        def prepare() -> None:
            for number in IGNORED:
                signal.signal(number, signal.SIG_DFL)
            processes.die_with_parent()
            join()

        try:
            # This process has one thread, so running Python between fork and exec is safe.
            starter = subprocess.Popen(
                argv,
                cwd=workdir,
                env={
                    **environment,
                    "DISPATCH_RANK": str(rank),
                    memory.NODE_VARIABLE: str(node),
                    "DISPATCH_LOCAL_RANK": str(local),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509
            )
        except (FileNotFoundError, PermissionError) as problem:
            if problem.filename != argv[0]:
                raise LaunchError(End(Cause.LAUNCH_FAILED, f"rank {rank}: {problem}")) from problem
            raise _not_started(rank, problem) from problem
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            raise LaunchError(End(Cause.LAUNCH_FAILED, f"rank {rank}: {problem}")) from problem
        process = processes.read(starter.pid) or Process(starter.pid, -1, os.getpid())
        self._tasks.append(Task(rank, node, process, starter))

    def _environment(self) -> dict[str, str]:
        order = self._order
        secrets = {}
        for name, path in order.secrets.items():
            try:
                secrets[name] = Path(path).read_text().rstrip("\n")
            except (OSError, ValueError) as problem:
                why = f"secret {name}: {type(problem).__name__} at {path}"
                raise LaunchError(End(Cause.LAUNCH_FAILED, why)) from problem
        return {
            **spool.passed_on(),
            **order.env,
            **secrets,
            "DISPATCH_EPOCH": str(int(order.env["DISPATCH_EPOCH"]) + self._restarts),
            "DISPATCH_NODES": str(order.nodes),
            "DISPATCH_WORLD_SIZE": str(order.nodes * order.tasks_per_node),
            "DISPATCH_MASTER_ADDR": _LOOPBACK,
            processes.MARK: order.ref,
        }

    def _workdir(self) -> str:
        workdir = Path(self._order.workdir or "work")
        if self._order.workdir is None:
            workdir.mkdir(exist_ok=True)
        if not workdir.is_dir():
            raise LaunchError(End(Cause.LAUNCH_FAILED, f"workdir {workdir} is no folder"))
        return str(workdir)

    # --- watch ---

    def over(self, life: Life, told_to_end: bool) -> bool:
        """Look once; return whether nothing of the run is left."""
        self._reap()
        if self.verdict is None:
            self.verdict = self._judge(life, told_to_end)
        if self.verdict is None:
            return False
        return self._end_all(life)

    def tick_s(self) -> float:
        """Return how long to wait for news, seconds."""
        if self.verdict is not None:
            if self._kill_at_s is None:
                return _KILL_TICK_S
            left = self._kill_at_s - processes.uptime_s()
            return min(_TICK_S, left) if left > 0 else _KILL_TICK_S
        tick = min(_TICK_S, self._limiter.tick_s)
        return tick if self._until_s is None else min(tick, self._until_s - processes.uptime_s())

    def _reap(self) -> None:
        by_pid = {task.process.pid: task for task in self._tasks if task.status is None}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            task = by_pid.get(pid)
            if task is None:
                continue
            task.status = os.waitstatus_to_exitcode(status)
            task.starter.returncode = task.status
            if task.failed and self.verdict is None:
                self.verdict = self._over_memory() or _failure(task)

    def _judge(self, life: Life, told_to_end: bool) -> End | None:
        if all(task.status == 0 for task in self._tasks):
            return self._over_memory() or End(None, exit_code=0)
        if life.ask is not None:
            self.asked = True
            return lives.end_of(life.ask, life.asked_by)
        if told_to_end:
            return End(Cause.NODE_SHUTDOWN, "its runner was told to end")
        if self._until_s is not None and processes.uptime_s() >= self._until_s:
            return End(Cause.TIMEOUT, f"it ran for {self._order.time_limit_s} s, its time limit")
        return self._over_memory()

    def _over_memory(self) -> End | None:
        running = [(task.process, task.node) for task in self._tasks if task.status is None]
        node = self._limiter.exceeded(running)
        if node is None:
            return None
        most = f"{self._order.memory_mb} MB, by {self._limiter.kind}"
        return End(Cause.OUT_OF_MEMORY, f"node {node} went over its limit of {most}")

    def _end_all(self, life: Life) -> bool:
        left = processes.descendants(os.getpid())
        if not left:
            # A look through /proc takes a while and may miss what is born meanwhile; that a
            # subreaper has no child left is certain.
            self._reap()
            return not processes.has_children()
        at = processes.uptime_s()
        if self._kill_at_s is None:
            # Whoever lost the node doesn't ask its processes to be so kind.
            grace_s = 0 if life.ask is Ask.LOSE_NODE else self._order.grace_s
            self._kill_at_s = at + grace_s
            if grace_s:
                processes.send_all(left, signal.SIGTERM)
                processes.send_all(left, signal.SIGCONT)
        if at >= self._kill_at_s:
            processes.send_all(left, signal.SIGKILL)
        return False

    def end(self, life: Life) -> End:
        """Return how the run ended, with what the first rank that ended badly said."""
        assert self.verdict is not None, "a run ends after its verdict"
        end = self.verdict
        if self.asked and life.ask is not None:
            # What was asked last: a rerun that turned into a stop is a stop.
            end = lives.end_of(life.ask, life.asked_by)
        if end.exit_code is not None or end.signal is not None:
            return end
        for task in self._tasks:
            if task.status:
                code, number = _code_and_signal(task.status)
                return replace(end, exit_code=code, signal=number)
        return end


def _not_started(rank: int, problem: OSError) -> LaunchError:
    missing = isinstance(problem, FileNotFoundError)
    code = _SHELL_NOT_FOUND if missing else _SHELL_NOT_EXECUTABLE
    why = f"rank {rank} couldn't start {problem.filename}: {problem.strerror}"
    return LaunchError(End(Cause.APP_ERROR, why, exit_code=code))


def _failure(task: Task) -> End:
    code, number = _code_and_signal(task.status or 0)
    how = f"exited with {code}" if number is None else f"was ended by signal {number}"
    return End(Cause.APP_ERROR, f"rank {task.rank} {how}", code, number)


def _code_and_signal(status: int) -> tuple[int | None, int | None]:
    return (status, None) if status >= 0 else (None, -status)
