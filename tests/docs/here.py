"""Clusters that are here while a page is typed: a small slurmrestd, and a small API server."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.docs.blocks import ROOT
from tests.schedulers.slurm.fake import KEY, FakeSlurm, Served

PODS = ROOT / "tests/schedulers/eks/recordings/job-04-pods.json"
EVIDENCE = "dispatch/evidence"


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, Any]]:
    """Serve Slurm's REST API; give what of a cluster's settings leads there."""
    fake = FakeSlurm(now=lambda: int(time.time()))
    served = Served(fake)
    key = folder / "jwt_hs256.key"
    key.write_text(base64.b64encode(KEY).decode())
    try:
        yield {"url": fake.url, "sign_in": {"kind": "hs256", "secret": f"file:{key}"}}
    finally:
        served.close()


@contextmanager
def kubernetes(folder: Path) -> Iterator[dict[str, Any]]:
    """Serve pods that a real API server showed, kept for their evidence; as `slurm` does."""
    pods = json.loads(PODS.read_text(encoding="utf-8"))["items"]
    for pod in pods:
        pod["metadata"]["finalizers"] = [EVIDENCE]
    handler = type("Handler", (_Handler,), {"pods": pods})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    file = folder / "kubeconfig"
    file.write_text(json.dumps(_kubeconfig(f"http://127.0.0.1:{server.server_address[1]}")))
    try:
        yield {"access": {"kind": "kubeconfig", "path": str(file)}}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _kubeconfig(url: str) -> dict[str, Any]:
    named = {"name": "here"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {"token": "none"}}],
        "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
    }


class _Handler(BaseHTTPRequestHandler):
    pods: list[dict[str, Any]]
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        status, body = 404, {"kind": "Status", "status": "Failure", "code": 404}
        if path.endswith("/pods") and self.command == "GET":
            status = 200
            body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
            body["items"] = self.pods
        elif self.command == "PATCH":
            (pod,) = (one for one in self.pods if path.endswith(one["metadata"]["name"]))
            assert b"finalizers" in raw
            pod["metadata"].pop("finalizers", None)
            status, body = 200, {"kind": "Pod", "apiVersion": "v1", **pod}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the names are http.server's

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
