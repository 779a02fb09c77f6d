"""The spool: one folder for each object, changed under a lock, synced before it is believed.

    SPOOL/cluster.json          which cluster this is, written once
    SPOOL/lock                  held while a folder appears or is forgotten
    SPOOL/new/…                 folders under construction
    SPOOL/objects/JOB.N.A/      order.json, life.json, lock, runner.lock, wake, output-K.log, …
    SPOOL/forgotten/JOB.N.A/    ended long ago; nobody looks here but `output`

Locks are the kernel's (`flock`): they end with the process that held them, however it ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import dispatch
from dispatch.schedulers.local.codec import (
    Unreadable,
    life_text,
    order_text,
    read_life,
    read_order,
)
from dispatch.schedulers.local.life import Life, Order

CLUSTER_SCHEMA = "dispatch.local.cluster.v1"
FOLDER_NAME = re.compile(r"[a-z][a-z0-9]{7,40}\.[1-9][0-9]{0,5}\.[1-9][0-9]{0,5}")
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What a job sees of the environment that supervision runs in; its credentials aren't."""

_POLL_S = 0.005
_DETACHED_WITHIN_S = 10.0
_ABANDONED_AFTER_S = 3600.0


class Gone(Exception):
    """There is no such folder, or no spool at all."""


class Busy(Exception):
    """Somebody holds the lock for longer than a call may take."""


class Taken(Exception):
    """A folder of that name exists, or existed."""


class Folder:
    """One object's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def order(self) -> Order:
        """Return what was asked for.

        Raises:
            Gone: There is no such folder.
            Unreadable: There is one, and its file can't be read as one.
        """
        return read_order(self._read("order.json"))

    def life(self) -> Life:
        """Return where it stands; errors as for `order`."""
        return read_life(self._read("life.json"))

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_bytes().decode()
        except FileNotFoundError as problem:
            if self.path.exists():
                raise Unreadable(f"{name} is missing") from problem
            raise Gone(str(self.path)) from problem
        except (OSError, UnicodeDecodeError) as problem:
            raise Unreadable(f"{name}: {problem}") from problem

    def save(self, life: Life) -> Life:
        """Replace where it stands, durably; the caller holds the lock.

        Raises:
            OSError: It may be there or not.
        """
        life = replace(life, serial=life.serial + 1)
        write_whole(self.path / "life.json", life_text(life))
        return life

    @contextmanager
    def locked(self, within_s: float) -> Iterator[None]:
        """Be the only one who changes the object.

        Raises:
            Busy: The lock couldn't be had in time.
            Gone: There is no such folder.
        """
        with _locked(self.path / "lock", within_s):
            yield

    def runner_alive(self) -> bool:
        """Return whether a runner watches the object; the caller holds the lock."""
        with _opened(self.path / "runner.lock") as handle:
            return not _try_lock(handle)

    def wake(self) -> None:
        """Tell the runner, if there is one, to look at the object now."""
        with suppress(OSError):
            handle = os.open(self.path / "wake", os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(handle, b".")
            finally:
                os.close(handle)

    def spawn(self) -> subprocess.Popen[bytes] | None:
        """Start a runner that outlives this process; the caller holds the lock.

        The runner inherits its lock from here, so there is no moment at which it is there and
        seems not to be. Pass what is returned to `detached` once the lock is let go.
        """
        with _opened(self.path / "runner.lock") as handle:
            if not _try_lock(handle):
                return None
            root = str(Path(dispatch.__file__).resolve().parent.parent)
            log = os.open(self.path / "runner.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                # -S: the runner stands on the standard library, and starts twice as fast.
                module = "dispatch.schedulers.local.runner"
                return subprocess.Popen(
                    [sys.executable, "-S", "-m", module, str(self.path), str(handle)],
                    cwd="/",
                    env={**passed_on(), "PYTHONPATH": root},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(handle,),
                    start_new_session=True,
                )
            finally:
                os.close(log)


class Spool:
    """The folder that is the cluster."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._objects = root / "objects"
        self._forgotten = root / "forgotten"
        self._new = root / "new"

    def open(self, identity: Callable[[], str]) -> None:
        """Make the spool if there is none; its identity is drawn once and never changes."""
        for folder in (self.root, self._objects, self._forgotten, self._new):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.root / "lock").touch(mode=0o600)
        self._clear((self.root / "lock").stat().st_mtime - _ABANDONED_AFTER_S)
        if (self.root / "cluster.json").exists():
            return
        with _locked(self.root / "lock", 10.0):
            if not (self.root / "cluster.json").exists():
                body = {"schema": CLUSTER_SCHEMA, "identity": identity()}
                write_whole(self.root / "cluster.json", json.dumps(body))

    def _clear(self, before: float) -> None:
        """Remove what starts that were cut short had begun."""
        for path in self._new.iterdir():
            with suppress(OSError):
                if path.stat().st_mtime < before:
                    self.discard(path)

    def identity(self) -> str:
        """Return which cluster this is.

        Raises:
            Gone: The spool isn't there, or isn't one.
        """
        try:
            body = json.loads((self.root / "cluster.json").read_bytes())
            if body["schema"] == CLUSTER_SCHEMA:
                return str(body["identity"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise Gone(f"{self.root} is no spool: {problem}") from problem
        raise Gone(f"{self.root} is the spool of another build")

    def names(self) -> list[str]:
        """Return the names of the objects' folders.

        Raises:
            Gone: They can't be listed.
        """
        try:
            names = (path.name for path in self._objects.iterdir())
            return sorted(name for name in names if FOLDER_NAME.fullmatch(name))
        except OSError as problem:
            raise Gone(f"{self._objects}: {problem}") from problem

    def folder(self, name: str) -> Folder:
        """Return an object's folder, whether it exists or not."""
        return Folder(self._objects / name)

    def forgotten(self, name: str) -> Folder:
        """Return an object's folder among the forgotten, whether it exists or not."""
        return Folder(self._forgotten / name)

    def prepare(self, order: Order, life: Life, script: str | None, key: str) -> Path:
        """Return a complete folder that nobody sees yet.

        Raises:
            OSError: There is none.
        """
        path = self._new / f"{order.folder_name}.{key}"
        path.mkdir(mode=0o700)
        try:
            (path / "lock").touch(mode=0o600)
            (path / "runner.lock").touch(mode=0o600)
            os.mkfifo(path / "wake", 0o600)
            if script is not None:
                _write_synced(path / "script", script, 0o700)
            _write_synced(path / "order.json", order_text(order))
            _write_synced(path / "life.json", life_text(life))
            sync_folder(path)
        except OSError:
            self.discard(path)
            raise
        return path

    def discard(self, path: Path) -> None:
        """Remove a folder that nobody ever saw."""
        shutil.rmtree(path, ignore_errors=True)

    def publish(self, path: Path, name: str, within_s: float, in_time: Callable[[], None]) -> None:
        """Make a prepared folder an object, if there never was one of that name.

        Args:
            path: What `prepare` returned.
            name: The object's folder name.
            within_s: How long to wait for the spool's lock.
            in_time: Raises where it is too late; asked last of all.

        Raises:
            Taken: There is or was an object of that name.
            Busy: The lock couldn't be had in time; nothing was done.
            OSError: It may have been done.
        """
        with _locked(self.root / "lock", within_s):
            if (self._objects / name).exists() or (self._forgotten / name).exists():
                raise Taken(name)
            in_time()
            path.rename(self._objects / name)
        sync_folder(self._objects)

    def forget(self, name: str, still: Callable[[Life], bool], within_s: float) -> bool:
        """Move an object's folder out of sight; say whether that was done.

        Args:
            name: The object's folder name.
            still: Whether a life is one to be forgotten.
            within_s: How long to wait for each lock.

        Raises:
            Busy: A lock couldn't be had in time.
        """
        folder = self.folder(name)
        with _locked(self.root / "lock", within_s), folder.locked(within_s):
            if not still(folder.life()) or folder.runner_alive():
                return False
            folder.path.rename(self._forgotten / name)
        sync_folder(self._forgotten)
        sync_folder(self._objects)
        return True


def output_paths(order: Order) -> list[Path]:
    """Return where each node writes; relative to the object's folder unless the spec says."""
    if order.output is None:
        return [Path(f"output-{node}.log") for node in range(order.nodes)]
    first = Path(order.workdir or "work") / order.output
    return [first, *(first.with_name(f"{first.name}.{k}") for k in range(1, order.nodes))]


def passed_on() -> dict[str, str]:
    """Return what a job sees of this process's environment."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def detached(starter: subprocess.Popen[bytes]) -> bool:
    """Wait until a runner stands on its own feet; say whether it does, as far as that is known."""
    try:
        return starter.wait(_DETACHED_WITHIN_S) == 0
    except subprocess.TimeoutExpired:
        # It holds its lock, so it will either get going or be seen to have died.
        starter.returncode = 0
        return True


def write_whole(path: Path, text: str) -> None:
    """Replace a file so that a reader, or a power cut, meets the old text or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    _write_synced(fresh, text)
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make a folder's list of names durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_synced(path: Path, text: str, mode: int = 0o600) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError as problem:
        if path.parent.exists():
            raise Unreadable(f"{path.name} is missing") from problem
        raise Gone(str(path.parent)) from problem
    try:
        yield handle
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _locked(path: Path, within_s: float) -> Iterator[None]:
    until = time.monotonic() + within_s
    with _opened(path) as handle:
        while not _try_lock(handle):
            if time.monotonic() >= until:
                raise Busy(f"{path} is held by another process")
            time.sleep(_POLL_S)
        yield
