"""Runs `dispatch` many times without loading it anew each time.

The server loads the command line once. For each command that somebody types it forks, and the
child becomes that command: its arguments, environment, folder and open files, and its exit code.
Only the half second is saved that Python needs to load it all.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from dispatch.cli import main
from tests.docs.blocks import ROOT

CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as to:
    to.connect({address!r})
    told = {{"words": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}
    socket.send_fds(to, [b"."], [0, 1, 2])
    to.sendall(json.dumps(told).encode())
    to.shutdown(socket.SHUT_WR)
    sys.exit(int(to.recv(8) or b"70"))
"""
"""What stands at the place of `dispatch`."""


class Forked:
    """The server, in a process of its own.

    Args:
        folder: Where its socket is; short enough for one.
    """

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "d")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.docs.forked", self.address],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def client(self) -> str:
        """Return a program that does what `dispatch` does."""
        return CLIENT.format(python=sys.executable, address=self.address)

    def end(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.communicate()


def serve(address: str) -> None:
    """Serve until killed."""
    for name in ("app", "spelling"):
        importlib.import_module(f"dispatch.cli.{name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(8)
        print("ready", flush=True)
        while True:
            asked, _ = listening.accept()
            with asked:
                if os.fork() == 0:
                    listening.close()
                    _become(asked)


def _become(asked: socket.socket) -> None:
    """Be the command that is asked for, and say what it ends with."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, opened, _, _ = socket.recv_fds(asked, 1, 3)
    for number, one in enumerate(opened):
        os.dup2(one, number)
        os.close(one)
    text = b""
    while piece := asked.recv(65536):
        text += piece
    told = json.loads(text)
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["env"])
    sys.argv = ["dispatch", *told["words"]]
    sys.modules["__main__"].__package__ = None  # or usage is told of `python -m`
    code = 70
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        asked.sendall(str(code).encode())
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
