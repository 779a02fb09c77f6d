"""Whatever the API's document allows, and some that it doesn't, asked of the built function.

Amazon's runtime takes the calls, behind a small gateway. No answer may be a 5xx, and each must be
one that the document has: its status, its type, its headers and its body. Two fuzzers ask at once,
of two runtimes over one file: one whatever comes, of jobs that mostly aren't there, and one of jobs
and a cluster that are. DISPATCH_FUZZ_EXAMPLES says how much each makes up beside the corner cases.
"""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.real.runtime.conftest import ROOT, Runtime, running
from tests.real.runtime.gateway import Gateway, serving
from tests.real.runtime.test_runtime import work

FUZZER = ROOT / ".venv-fuzz" / "bin" / "schemathesis"
POOL = 2
EXAMPLES = int(os.environ.get("DISPATCH_FUZZ_EXAMPLES", "4"))

CONFIGURATION = """
[checks.negative_data_rejection]
# What breaks a limit of the schema may be refused for its size before anybody looks into it.
expected-statuses = [400, 403, 404, 405, 409, 410, 413, 415, 422]
"""

KNOWN = """
[parameters]
"path.job_id" = "{job}"
"path.name" = "here"
"path.asset" = "app.js"
"""

LEFT_OUT = (
    "ignored_auth",  # this gateway signs for everybody; who gets in is the rehearsal's to try
    "positive_data_acceptance",  # rules between fields aren't the schema's, a spec's lint for one
)
OF_WHAT_IS_THERE = ("--include-path-regex", "[{]", "--exclude-method", "DELETE")
"""What names a job, a cluster or a file; no tombstone, which would leave nothing to ask about."""


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
        url = stack.enter_context(serving(gateway, threads=2 * POOL))
        job = job_that_ran(url, started("SupervisorFunction"))
        pool = stack.enter_context(ThreadPoolExecutor(2))
        both = (
            pool.submit(asked, tmp_path / "whatever", url, CONFIGURATION),
            pool.submit(
                asked,
                tmp_path / "there",
                url,
                CONFIGURATION + KNOWN.format(job=job),
                *OF_WHAT_IS_THERE,
            ),
        )
        done = [one.result() for one in both]
    assert gateway.broken == []
    for code, said in done:
        assert code == 0, said[-8000:]
        assert "Tested:" in said


def asked(place: Path, url: str, configuration: str, *which: str) -> tuple[int, str]:
    """Let a fuzzer ask, and return how it ended and what it said, cut to be read."""
    place.mkdir()
    (place / "schemathesis.toml").write_text(configuration)
    done = subprocess.run(
        [
            *(str(FUZZER), "run", str(ROOT / "infra" / "openapi.json"), "--url", url, *which),
            *("--checks", "all", "--exclude-checks", ",".join(LEFT_OUT)),
            *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES)),
            # The same requests each time, however busy the machine is.
            *("--seed", "1", "--generation-database", "none", "--workers", "1"),
            *("--request-timeout", "100", "--max-response-time", "100"),
            *("--suppress-health-check", "all", "--continue-on-failure", "--no-color"),
        ],
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    (place / "said.txt").write_text(done.stdout + done.stderr)
    lines = (line[:300] for line in done.stdout.splitlines())
    return done.returncode, "\n".join((*lines, f"{place}/said.txt has all of it"))


def job_that_ran(url: str, supervisor: Runtime) -> str:
    """Make a job and let it end, so that there is something to be asked about."""
    body = {"spec": {"name": "ran", "command": ["echo", "done"]}, "cluster": "here"}
    headers = {"Idempotency-Key": "ran"}
    job = str(httpx.post(f"{url}/jobs", json=body, headers=headers, timeout=100).json()["job_id"])
    for _ in range(60):
        supervisor.invoke(work("here", job))
        if "outcome" in httpx.get(f"{url}/jobs/{job}", timeout=100).json():
            return job
    pytest.fail("the job didn't end")
