"""A small slurmrestd in this process: what the adapter can be shown without a Slurm.

Its jobs and runs are the recorded ones with some fields changed, so that their shape is real.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDINGS = Path(__file__).parent / "recordings"
KEY = b"a key that only tests know"
VERSION = re.compile(r"^/(slurm|slurmdb)/(v0\.0\.\d+)/(.*)$")


def recorded(name: str) -> dict[str, Any]:
    """Return a recording, by its name under recordings/."""
    loaded: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return loaded


def unset() -> dict[str, Any]:
    return {"set": False, "infinite": False, "number": 0}


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def exited(code: int | None = None, signal: int | None = None) -> dict[str, Any]:
    """Return an exit as Slurm writes it."""
    if signal is not None:
        return {
            "status": ["SIGNALED"],
            "return_code": unset(),
            "signal": {"id": number(signal), "name": ""},
        }
    return {
        "status": ["ERROR" if code else "SUCCESS"],
        "return_code": number(code or 0),
        "signal": {"id": unset(), "name": ""},
    }


@dataclass
class Asked:
    """One request that came."""

    method: str
    path: str
    user: str
    claims: dict[str, Any]
    body: Any


@dataclass
class Fault:
    """What goes wrong with the next request that matches.

    Attributes:
        method: Its method.
        path: A pattern for the end of its path.
        effect: Whether the call takes effect all the same.
        reply: What is answered; none cuts the connection.
        times: How often.
    """

    method: str
    path: str
    effect: bool = False
    reply: tuple[int, Any] | None = None
    times: int = 1


@dataclass
class FakeSlurm:
    """The cluster's state, and what it was asked."""

    now: Callable[[], int]
    versions: tuple[str, ...] = ("v0.0.42",)
    name: str = "proving"
    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    next_id: int = 1
    alive: bool = True
    began: int = 1
    ignores: tuple[str, ...] = ()
    url: str = ""

    # --- making situations ------------------------------------------------------------------

    def job(self, **fields: Any) -> dict[str, Any]:
        """Add a job that somebody else made, and return it."""
        job: dict[str, Any] = copy.deepcopy(
            recorded("v0.0.42/get-job-just-submitted")["body"]["jobs"][0]
        )
        job.update(
            job_id=self.next_id,
            cluster=self.name,
            submit_time=number(self.now()),
            user_name="trainer",
        )
        job.update(name="", comment="", extra="", requeue=False)
        job.update(fields)
        self.jobs[job["job_id"]] = job
        self.next_id = max(self.next_id, job["job_id"]) + 1
        return job

    def runs_on(self, job_id: int, node: str = "n1") -> None:
        """Start a job."""
        self.jobs[job_id].update(
            job_state=["RUNNING"], nodes=node, start_time=number(self.now()), state_reason="None"
        )

    def ends(self, job_id: int, *state: str, **fields: Any) -> None:
        """End a job in slurmctld, and in accounting with it."""
        job = self.jobs[job_id]
        job.update(job_state=list(state), end_time=number(self.now()), hold=False)
        job.update(fields)
        self.account(job)

    def account(self, job: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """Add the run that accounting keeps of a job, and return it."""
        run: dict[str, Any] = copy.deepcopy(
            recorded("v0.0.42/slurmdb-failed-exit-5")["body"]["jobs"][0]
        )
        plain = {key: job[key]["number"] for key in ("submit_time", "start_time", "end_time")}
        run.update(
            job_id=job["job_id"],
            name=job["name"],
            user=job["user_name"],
            extra=job["extra"],
            comment={"administrator": "", "job": job["comment"], "system": ""},
            state={"current": list(job["job_state"]), "reason": job["state_reason"]},
            exit_code=job["exit_code"],
            restart_cnt=job["restart_cnt"],
            nodes=job["nodes"] or "None assigned",
            kill_request_user="",
            steps=[],
        )
        run["time"].update(
            submission=plain["submit_time"], start=plain["start_time"], end=plain["end_time"]
        )
        run.update(fields)
        self.runs.append(run)
        return run

    def forget(self, job_id: int) -> None:
        """Purge a job from slurmctld, as MinJobAge does."""
        del self.jobs[job_id]

    def calls(self, *methods: str) -> list[Asked]:
        """Return what was asked with one of these methods."""
        return [one for one in self.asked if one.method in methods]

    # --- answering --------------------------------------------------------------------------

    def answer(self, asked: Asked) -> tuple[int, Any]:
        """Return the status and body of a request; its effect is done."""
        found = VERSION.match(asked.path)
        if found is None or found[2] not in self.versions:
            return 404, "Unable find requested URL. Please view /openapi/v3 for API reference."
        claims = asked.claims
        if claims.get("exp", 0) <= self.now() or claims.get("sun") != asked.user:
            return 511, self._body(found[2], jobs=[], errors=[error(1007, "authentication error")])
        path, _, query = found[3].partition("?")
        if path.strip("/") == "ping":
            ping = {"hostname": "c", "pinged": "UP" if self.alive else "DOWN"}
            return 200, self._body(found[2], pings=[{**ping, "responding": self.alive}])
        if not self.alive:
            return 502, self._body(found[2], jobs=[], errors=[error(1800, "Unable to contact")])
        if found[1] == "slurmdb":
            return self._accounting(found[2], path.strip("/"), parse_qs(query))
        return self._controller(found[2], asked, path.strip("/"))

    def _body(self, version: str, **fields: Any) -> dict[str, Any]:
        meta = {
            "plugin": {"data_parser": f"data_parser/{version}"},
            "slurm": {"release": "24.11.5", "cluster": self.name},
        }
        return {"meta": meta, "errors": [], "warnings": [], **fields}

    def _controller(self, version: str, asked: Asked, path: str) -> tuple[int, Any]:
        match path.split("/"):
            case ["jobs"]:
                jobs = copy.deepcopy(list(self.jobs.values()))
                return 200, self._body(version, jobs=jobs, last_update=number(self.now()))
            case ["jobs", "state"]:
                states = [
                    {"job_id": str(key), "state": job.get("job_state", ["PENDING"])}
                    for key, job in self.jobs.items()
                ]
                return 200, self._body(version, jobs=states)
            case ["job", "submit"]:
                return self._submit(version, asked)
            case ["job", text, "requeue"] if version == "v0.0.45":
                return self._requeue(version, int(text))
            case ["job", text] if int(text) not in self.jobs:
                unknown = [error(2017, "Invalid job id specified")]
                if asked.method == "DELETE":
                    refusal = {"error": {"code": 2017, "string": "Invalid job id specified"}}
                    return 200, self._body(version, status=[refusal])
                return 404, self._body(version, jobs=[], errors=unknown)
            case ["job", text]:
                return self._one(version, asked, self.jobs[int(text)])
            case ["diag"]:
                times = {"req_time": number(self.now()), "req_time_start": number(self.began)}
                return 200, self._body(version, statistics=times)
            case ["partitions"]:
                parts = [
                    {"name": "main", "partition": {"state": ["UP"]}},
                    {"name": "closed", "partition": {"state": ["DOWN"]}},
                ]
                return 200, self._body(version, partitions=parts)
            case _:
                return 404, "Unable find requested URL."

    def _submit(self, version: str, asked: Asked) -> tuple[int, Any]:
        sent = {key: value for key, value in asked.body["job"].items() if key not in self.ignores}
        job = self.job(
            name=sent["name"],
            comment=sent["comment"],
            extra=sent.get("extra", ""),
            requeue=sent.get("requeue", True),
            hold=sent.get("hold", False),
            user_name=asked.user,
        )
        warnings = [
            {
                "description": f'Ignoring unknown field "{key}" of type string',
                "source": f"#/job/{key}/",
            }
            for key in self.ignores
        ]
        if job["hold"]:
            job.update(state_reason="JobHeldUser", priority=number(0))
            warnings.append({"description": "Job is in held state, pending scheduler release"})
        return 200, self._body(
            version,
            job_id=job["job_id"],
            step_id="batch",
            job_submit_user_msg="",
            warnings=warnings,
        )

    def _one(self, version: str, asked: Asked, job: dict[str, Any]) -> tuple[int, Any]:
        if asked.method == "GET":
            return 200, self._body(
                version, jobs=[copy.deepcopy(job)], last_update=number(self.now())
            )
        ended = job["job_state"][0] not in ("PENDING", "RUNNING", "SUSPENDED")
        if asked.method == "DELETE":
            if ended:
                done = {
                    "error": {"code": 2021, "string": "Job/step already completing or completed"}
                }
                return 200, self._body(version, status=[done])
            signal = 15 if job["nodes"] else None
            self.ends(job["job_id"], "CANCELLED", exit_code=exited(0, signal))
            return 200, self._body(version, status=[])
        if ended:
            return 500, self._body(version, errors=[error(2084, "Job has already finished")])
        if asked.body.get("hold") is False and job["state_reason"] == "JobHeldAdmin":
            return 500, self._body(version, errors=[error(2002, "Access/permission denied")])
        job.update(asked.body)
        if "hold" in asked.body and job["job_state"] == ["PENDING"]:
            job["state_reason"] = "JobHeldUser" if job["hold"] else "None"
        return 200, self._body(version, results=None)

    def _requeue(self, version: str, job_id: int) -> tuple[int, Any]:
        job = self.jobs[job_id]
        if not job["requeue"]:
            return 422, self._body(version, errors=[error(2037, "presently disabled")], status=[])
        if job["job_state"] == ["RUNNING"]:
            reason = "JobHeldUser" if job["hold"] else "BeginTime"
            job.update(job_state=["PENDING"], state_reason=reason, nodes="")
            job.update(restart_cnt=job["restart_cnt"] + 1, submit_time=number(self.now()))
        return 200, self._body(version, status=[])

    def _accounting(self, version: str, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        match path.split("/"):
            case ["job", text]:
                rows = [run for run in self.runs if run["job_id"] == int(text)]
            case ["jobs"]:
                name = query.get("job_name", [None])[0]
                since = int(query.get("start_time", ["0"])[0])
                rows = [
                    run
                    for run in self.runs
                    if name in (None, run["name"]) and not 0 < run["time"]["end"] < since
                ]
            case ["user", user]:
                association = {"account": "physics", "user": user}
                users = [{"name": user, "associations": [association]}] if user == "trainer" else []
                return 200, self._body(version, users=users)
            case ["qos"]:
                return 200, self._body(version, qos=[{"name": "normal"}])
            case _:
                return 404, "Unable find requested URL."
        warnings = [] if rows else [{"description": "slurmdb_jobs_get() found nothing"}]
        return 200, self._body(version, jobs=copy.deepcopy(rows), warnings=warnings)


def error(code: int, words: str) -> dict[str, Any]:
    return {"error_number": code, "error": words, "description": "", "source": ""}


class Served:
    """A fake behind a loopback port."""

    def __init__(self, fake: FakeSlurm, tls: ssl.SSLContext | None = None) -> None:
        handler = type("Handler", (_Handler,), {"fake": fake})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        fake.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeSlurm
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        asked = Asked(
            self.command,
            self.path,
            self.headers.get("X-SLURM-USER-NAME", ""),
            _claims(self.headers.get("X-SLURM-USER-TOKEN", "")),
            json.loads(raw) if raw else None,
        )
        self.fake.asked.append(asked)
        fault = self._fault()
        status, body = self.fake.answer(asked) if fault is None or fault.effect else (0, None)
        if fault is not None:
            if fault.reply is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            status, body = fault.reply
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _fault(self) -> Fault | None:
        for fault in self.fake.faults:
            path = urlsplit(self.path).path.rstrip("/")
            if fault.method == self.command and re.search(fault.path + r"\Z", path):
                fault.times -= 1
                if fault.times == 0:
                    self.fake.faults.remove(fault)
                return fault
        return None

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - the names are http.server's

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _claims(token: str) -> dict[str, Any]:
    signed, _, signature = token.rpartition(".")
    expected = hmac.new(KEY, signed.encode(), hashlib.sha256).digest()
    if base64.urlsafe_b64encode(expected).rstrip(b"=").decode() != signature:
        return {}
    claims = signed.partition(".")[2]
    loaded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return loaded
