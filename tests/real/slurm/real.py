"""The real Slurm that `up.sh` started, and everything that can be done to it from outside."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

_ENV = os.environ.get("DISPATCH_SLURM_ENV")
PATIENCE_S = 180.0
POLL_S = 0.1


def until(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until something holds; fail, naming it, if it never does."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() >= deadline:
            pytest.fail(f"never: {what}")
        time.sleep(POLL_S)


class RealSlurm:
    """One cluster in a namespace of its own; see up.sh."""

    def __init__(self, told: dict[str, str]) -> None:
        self.base = Path(told["DISPATCH_SLURM_BASE"])
        self.rootfs = Path(told["DISPATCH_SLURM_ROOTFS"])
        self.url = told["DISPATCH_SLURM_URL"]
        self.release = told["DISPATCH_SLURM_RELEASE"]
        self._first = told["DISPATCH_SLURM_FIRST"]

    @classmethod
    def found(cls) -> RealSlurm:
        """Return the cluster that the run was started for; without one the run fails."""
        if not _ENV:
            pytest.exit("no Slurm was started: run `make test-slurm`", returncode=1)
        lines = Path(_ENV).read_text().splitlines()
        return cls(dict(line.split("=", 1) for line in lines))

    def key(self) -> bytes:
        return (self.base / "jwt.key").read_bytes()

    # --- inside -----------------------------------------------------------------------------

    def _command(self, *words: str) -> list[str]:
        entered = ["nsenter", "--target", self._first, "--mount", "--pid", "--uts"]
        return [
            *entered,
            "chroot",
            str(self.rootfs),
            "env",
            f"SLURM_CONF={self.base}/slurm.conf",
            *words,
        ]

    def run(self, *words: str, user: str | None = None, check: bool = True) -> str:
        """Run a command as an administrator of the cluster, or as a user, and return its output."""
        if user is not None:
            words = ("runuser", "-u", user, "--", *words)
        done = subprocess.run(
            self._command(*words), capture_output=True, text=True, check=False, timeout=120
        )
        if check and done.returncode:
            raise AssertionError(f"{words}: {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout.strip()

    def daemon(self, name: str) -> list[int]:
        """Return the process ids (the host's) of a daemon: slurmctld, slurmdbd, n1, …."""
        wanted = f"slurmd -D -N {name}" if re.fullmatch(r"n\d+", name) else name
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if not self._is_inside(folder):
                    continue
            except OSError:
                continue
            first = words.partition(" ")[0].rpartition("/")[2]
            if words == wanted or words.endswith("/" + wanted) or (first == name):
                found.append(int(folder.name))
        return found

    def _is_inside(self, folder: Path) -> bool:
        return (folder / "root").readlink() == self.rootfs

    def kill(self, name: str) -> None:
        """End a daemon as a crash would."""
        pids = self.daemon(name)
        assert pids, f"{name} doesn't run"
        for pid in pids:
            os.kill(pid, 9)
        until(lambda: not self.daemon(name), f"{name} is dead")

    def start(self, name: str) -> None:
        """Start a daemon again."""
        with (self.base / "log" / f"{name}.out").open("ab") as log:
            subprocess.run(
                self._command(str(self.base / "start"), name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a daemon, to stop it in its tracks or let it go on."""
        for pid in self.daemon(name):
            os.kill(pid, number)

    def controller_answers(self) -> bool:
        return " UP" in self.run("scontrol", "ping", check=False)

    def restart_controller(self) -> None:
        """Kill slurmctld, with all that it hasn't saved, and start it again."""
        self.kill("slurmctld")
        self.start("slurmctld")
        until(self.controller_answers, "slurmctld answers again")

    def start_controller_closed(self) -> None:
        """Start slurmctld as a careful site does: nothing is scheduled before the nodes are back.

        What a node runs and slurmctld forgot is ended when that node registers.
        """
        path = self.base / "slurm.conf"
        opened = path.read_text()
        path.write_text(
            re.sub(r"(?m)^(PartitionName=(?:main|urgent) .*)State=UP", r"\1State=DOWN", opened)
        )
        try:
            self.start("slurmctld")
            until(self.controller_answers, "slurmctld answers again")
        finally:
            path.write_text(opened)
        until(lambda: not self._unregistered(), "the nodes that live have registered")
        for partition in ("main", "urgent"):
            self.run("scontrol", "update", f"partitionname={partition}", "state=up")

    def _unregistered(self) -> set[str]:
        shown = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T", check=False)
        states = dict(line.split() for line in shown.splitlines())
        silent = {node for node, state in states.items() if state.endswith("*")}
        return {node for node in silent if self.daemon(node)} if states else {"all"}

    def configure(self, name: str, value: str) -> None:
        """Change a line of slurm.conf and have the daemons read it."""
        path = self.base / "slurm.conf"
        text, changed = re.subn(rf"(?m)^{name}=.*$", f"{name}={value}", path.read_text())
        assert changed == 1, name
        path.write_text(text)

        def in_force() -> bool:
            shown = self.run("scontrol", "show", "config", check=False)
            if re.search(rf"(?m)^{name}\s+= {value}\b", shown):
                return True
            # A busy slurmctld may answer late, or not at all.
            self.run("scontrol", "reconfigure", check=False)
            return False

        until(in_force, f"{name}={value} is in force")

    # --- jobs -------------------------------------------------------------------------------

    def field(self, job_id: int, name: str) -> str | None:
        """Return a field of a job as scontrol shows it, or nothing for an unknown job."""
        shown = self.run("scontrol", "show", "job", str(job_id), check=False)
        found = re.search(rf"(?:^|\s){name}=(\S*)", shown)
        return found[1] if found else None

    def state(self, job_id: int) -> str | None:
        return self.field(job_id, "JobState")

    def forget(self, job_id: int) -> None:
        """Have slurmctld forget what has ended."""
        self.configure("MinJobAge", "2")
        until(lambda: self.state(job_id) is None, f"job {job_id} is forgotten")
        self.configure("MinJobAge", "300")

    def batch(self, *words: str, user: str = "trainer") -> int:
        """Submit a job from the shell and return its id."""
        return int(self.run("sbatch", "--parsable", *words, user=user))

    def update(self, job_id: int, **fields: str) -> None:
        """Change a job as an administrator."""
        pairs = [f"{name}={value}" for name, value in fields.items()]
        self.run("scontrol", "update", f"jobid={job_id}", *pairs)

    def heal(self) -> None:
        """Start every daemon that a test left dead."""
        nodes = [folder.name for folder in (self.base / "spool").glob("n[0-9]*") if folder.is_dir()]
        for name in ("slurmdbd", "slurmctld", "slurmrestd", *sorted(nodes)):
            self.signal(name, signal.SIGCONT)
            if not self.daemon(name):
                self.start(name)
        until(self.controller_answers, "slurmctld answers")

    def cancel_everything(self) -> None:
        """Leave no job and no lame node behind."""
        self.heal()
        (self.base / "work" / "failing-prologs").unlink(missing_ok=True)
        for user in ("trainer", "other"):
            # Whoever ignores the polite signal would be given its KillWait.
            self.run("scancel", "--full", "--signal=KILL", f"--user={user}", check=False)
            self.run("scancel", f"--user={user}", check=False)
        until(lambda: not self.run("squeue", "-h"), "no job is left")
        lame = self.run("sinfo", "-h", "-N", "-p", "main", "-t", "down,drain,fail", "-o", "%N")
        for node in set(lame.split()):
            self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    # --- the truth --------------------------------------------------------------------------

    def processes(self, job_id: int) -> list[tuple[int, dict[str, str]]]:
        """Return the processes of a job with what they were given as environment."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if not self._is_inside(folder):
                    continue
                raw = (folder / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            pairs = (pair.partition("=") for pair in raw.split("\0") if "=" in pair)
            given = {name: value for name, _, value in pairs}
            if given.get("SLURM_JOB_ID") == str(job_id) and "DISPATCH_JOB_ID" in given:
                found.append((int(folder.name), given))
        return sorted(found, key=lambda one: one[0])
