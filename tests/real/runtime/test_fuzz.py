"""Whatever the API's document allows, and some that it doesn't, asked of the built function.

Amazon's runtime takes the calls, behind a small gateway. No answer may be a 5xx, and each must be
one that the document has: its status, its type, its headers and its body.
"""

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.real.runtime.conftest import ROOT, Runtime, running
from tests.real.runtime.gateway import Gateway, serving
from tests.real.runtime.test_runtime import work

FUZZER = ROOT / ".venv-fuzz" / "bin" / "schemathesis"
POOL = 1
"""Runtimes; with one, nobody waits for another's lock and each run is the same."""
EXAMPLES = 4

CONFIGURATION = """
[checks.negative_data_rejection]
# What breaks a limit of the schema may be refused for its size before anybody looks into it.
expected-statuses = [400, 403, 404, 405, 409, 413, 415, 422]
"""

LEFT_OUT = (
    "ignored_auth",  # this gateway signs for everybody; who gets in is the rehearsal's to try
    "positive_data_acceptance",  # rules between fields aren't the schema's, a spec's lint for one
)


def test_every_answer_is_one_that_the_document_has_and_none_is_a_5xx(tmp_path: Path) -> None:
    if not FUZZER.is_file():
        pytest.fail(f"there is no {FUZZER}: run `make env-fuzz`")
    here = {"name": "here", "adapter": "local", "settings": {"spool": str(tmp_path / "spool")}}
    document = {"schema": "dispatch.clusters.v1", "clusters": [here]}
    settings = {
        "DISPATCH_SQLITE": str(tmp_path / "records.sqlite"),
        "DISPATCH_CLUSTERS": json.dumps(document),
        "DISPATCH_QUEUE_URL": "http://127.0.0.1:9/queue",
        "DISPATCH_EVENT_BUS": "events",
    }
    with ExitStack() as stack:

        def started(function: str) -> Runtime:
            return stack.enter_context(running(function, tmp_path, settings))

        gateway = Gateway([started("IntentsFunction") for _ in range(POOL)])
        url = stack.enter_context(serving(gateway, threads=POOL + 2))
        _job_that_ran(url, started("SupervisorFunction"))
        (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
        done = subprocess.run(
            [
                *(FUZZER, "run", ROOT / "infra" / "openapi.json", "--url", url),
                *("--checks", "all", "--exclude-checks", ",".join(LEFT_OUT)),
                *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES)),
                # The same requests each time, however busy the machine is.
                *("--seed", "1", "--generation-database", "none", "--workers", str(POOL)),
                *("--request-timeout", "100", "--max-response-time", "100"),
                *("--suppress-health-check", "all", "--continue-on-failure", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert gateway.broken == []
    (tmp_path / "said.txt").write_text(done.stdout)
    found = "\n".join(line[:300] for line in done.stdout.splitlines())
    assert done.returncode == 0, f"{found[-8000:]}\n{tmp_path}/said.txt has all of it"
    assert "Tested:" in done.stdout


def _job_that_ran(url: str, supervisor: Runtime) -> None:
    """So that there is something to be asked about."""
    body = {"spec": {"name": "ran", "command": ["echo", "done"]}, "cluster": "here"}
    headers = {"Idempotency-Key": "ran"}
    job = httpx.post(f"{url}/jobs", json=body, headers=headers, timeout=100).json()["job_id"]
    for _ in range(60):
        supervisor.invoke(work("here", job))
        if "outcome" in httpx.get(f"{url}/jobs/{job}", timeout=100).json():
            return
    pytest.fail("the job didn't end")
