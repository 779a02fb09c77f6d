"""What one reply is worth, whatever HTTP carried."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.record.names import Cause
from dispatch.schedulers.slurm.response import Answer, Kind, Reply, read
from tests.schedulers.slurm.fake import error

SUBMIT = ("POST", "/slurm/v0.0.42/job/submit")
JOB = ("GET", "/slurm/v0.0.42/job/42")
JOBS = ("GET", "/slurm/v0.0.42/jobs/")
CANCEL = ("DELETE", "/slurm/v0.0.42/job/42")
UPDATE = ("POST", "/slurm/v0.0.42/job/42")
ACCOUNTING = ("GET", "/slurmdb/v0.0.42/job/42")
ALL = (SUBMIT, JOB, JOBS, CANCEL, UPDATE, ACCOUNTING)


def worth(call: tuple[str, str], status: int, body: Any) -> Answer:
    return read(Reply(*call, status, body))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (504, {"errors": [error(5004, "Socket timed out on send/recv operation")]}),
        (502, {"errors": [error(5005, "Zero Bytes were transmitted or received")]}),
        (500, {"errors": [error(-1, "Unspecified error")]}),
        (200, {"errors": [{"error": "Unable to contact slurm controller (connect failure)"}]}),
        (408, ""),
        (429, "slow down"),
        (503, "<html></html>"),
        (200, {"job_id": 0, "errors": []}),
        (200, {"errors": [], "warnings": [{"description": "Expected integer"}]}),
        (200, {"job_id": "many"}),
        (200, {}),
        (200, {"job_id": 7, "errors": [error(5004, "timed out")]}),
    ],
)
def test_f01_a_submit_without_a_clear_answer_is_unknown(status: int, body: Any) -> None:
    assert worth(SUBMIT, status, body).kind is Kind.UNKNOWN


def test_f04_success_with_noise_is_a_held_job_with_notes() -> None:
    got = worth(
        SUBMIT,
        200,
        {
            "job_id": 3149172,
            "step_id": "batch",
            "job_submit_user_msg": "quota: 3 of 10",
            "warnings": [{"description": "Job is held"}],
            "errors": [],
        },
    )
    assert (got.kind, got.job_id) == (Kind.SIGHTING, 3149172)
    assert set(got.notes) == {"Job is held", "quota: 3 of 10"}


def test_f04_a_code_that_only_makes_it_wait_is_a_note_beside_the_id() -> None:
    got = worth(SUBMIT, 200, {"job_id": 3149173, "errors": [error(2042, "Job is held")]})
    assert (got.kind, got.job_id) == (Kind.SIGHTING, 3149173)
    assert got.rows[0].meaning.held
    old = {"result": {"job_id": 8, "error_code": 2042, "error": "held"}, "errors": []}
    assert worth(SUBMIT, 200, old).rows[0].meaning.held


def test_f04_no_identity_is_unknown() -> None:
    assert worth(SUBMIT, 200, {"job_id": 0, "errors": []}).kind is Kind.UNKNOWN


@pytest.mark.parametrize("call", ALL)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {}),
        (502, {"errors": []}),
        (503, ""),
        (200, ""),
        (200, "<html><title>Sign in</title></html>"),
        (200, {"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}),
        (200, {"jobs": [], "errors": [error(1800, "connect failure")]}),
        (200, {"jobs": [], "errors": "broken"}),
        (200, {"jobs": [], "errors": [7]}),
        (403, {"errors": [error(1, "Operation not permitted")]}),
    ],
)
def test_f06_trouble_of_the_question_is_no_evidence(
    call: tuple[str, str], status: int, body: Any
) -> None:
    assert worth(call, status, body).kind is Kind.UNKNOWN


def test_f06_one_bad_row_does_not_poison_the_others() -> None:
    rows: list[Any] = [{"job_id": 1, "job_state": ["RUNNING"]}, {"job_id": 2}, "junk"]
    got = worth(JOBS, 200, {"jobs": rows, "last_update": 1})
    assert [row.job_id for row in got.rows] == [1]
    assert [bad.job_id for bad in got.malformed] == [2, None]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"jobs": [], "errors": [error(2017, "Invalid job id specified")]}),
        (200, {"jobs": [], "errors": [error(2017, "Invalid job id specified")]}),
        (500, {"errors": [{"error": "_handle_job_get: unknown job 42"}]}),
        (500, {"errors": [{"description": "Unable to find JobId=42", "error_number": 2017}]}),
        (200, {"jobs": [], "errors": [], "last_update": {"set": True, "number": 5}}),
        (200, {"jobs": []}),
    ],
)
def test_f12_every_dialect_of_an_unknown_job_says_the_same(status: int, body: Any) -> None:
    assert worth(JOB, status, body).kind is Kind.NOT_KNOWN


def test_f12_an_empty_list_without_a_time_is_no_empty_queue() -> None:
    assert worth(JOBS, 200, {"jobs": []}).kind is Kind.UNKNOWN
    changed = {"jobs": [], "warnings": [{"description": "No job changes since update_time[1]"}]}
    stamped = {**changed, "last_update": {"set": True, "infinite": False, "number": 9}}
    assert worth(JOBS, 200, stamped).kind is Kind.UNKNOWN
    whole = worth(JOBS, 200, {"jobs": [], "last_update": {"set": True, "number": 9}})
    assert (whole.kind, whole.rows) == (Kind.SIGHTING, ())


def test_f13_an_error_of_number_zero_is_no_evidence() -> None:
    body = {
        "errors": [
            {
                "description": "Failure to query node bad-node",
                "error_number": 0,
                "error": "No error",
                "source": "_dump_nodes",
            }
        ],
        "meta": {"plugin": {"data_parser": "data_parser/v0.0.43"}},
    }
    assert read(Reply("GET", "/slurm/v0.0.43/node/bad", 200, body)).kind is Kind.UNKNOWN


@pytest.mark.parametrize("call", ALL)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, "Authentication failure"),
        (511, {"errors": [error(1007, "Protocol authentication error")]}),
        (511, {}),
        (500, {"errors": [error(6001, "Auth expired")]}),
        (403, "<html>forbidden</html>"),
    ],
)
def test_f13_bad_credentials_say_nothing_of_any_job(
    call: tuple[str, str], status: int, body: Any
) -> None:
    assert worth(call, status, body).kind is Kind.CREDENTIALS


@pytest.mark.parametrize("call", ALL)
def test_f13_a_path_that_is_not_served_is_never_a_job_that_is_gone(call: tuple[str, str]) -> None:
    assert worth(call, 404, "Unable find requested URL.").kind is Kind.WRONG_VERSION
    assert worth(call, 404, {"errors": []}).kind is Kind.WRONG_VERSION


@pytest.mark.parametrize("version", ["v0.0.36", "v0.0.38", "v0.0.39", "v0.0.46", "v0.0.100"])
def test_versions_that_are_not_read_are_named(version: str) -> None:
    got = read(Reply("GET", f"/slurm/{version}/jobs/", 200, {"jobs": []}))
    assert got.kind is Kind.WRONG_VERSION
    assert version in got.detail


@pytest.mark.parametrize(
    ("number", "about", "cause"),
    [
        (2000, "partition", Cause.INVALID_SPEC),
        (2045, "account", Cause.INVALID_SPEC),
        (2066, "qos", Cause.INVALID_SPEC),
        (2050, "limits", Cause.START_REFUSED),
        (2051, "limits", Cause.INVALID_SPEC),
        (2009, "script", Cause.INVALID_SPEC),
        (2038, "dependency", Cause.INVALID_SPEC),
        (2014, "nodes", Cause.UNSCHEDULABLE),
        (2029, "features", Cause.INVALID_SPEC),
        (2072, "gres", Cause.INVALID_SPEC),
        (2002, "permission", Cause.START_REFUSED),
        (2105, "controller", Cause.START_REFUSED),
        (2017, "job id", Cause.INVALID_SPEC),
    ],
)
@pytest.mark.parametrize("status", [422, 500, 404])
def test_a_refused_submit_says_what_to_look_at(
    number: int, about: str, cause: Cause, status: int
) -> None:
    got = worth(SUBMIT, status, {"errors": [error(number, "no")]})
    assert (got.kind, got.about, got.cause) == (Kind.REFUSED, about, cause)


def test_a_refusal_beside_doubt_is_doubt() -> None:
    told = [error(2000, "Invalid partition"), error(5004, "timed out")]
    assert worth(SUBMIT, 500, {"errors": told}).kind is Kind.UNKNOWN


def test_a_number_that_nobody_knows_is_doubt() -> None:
    assert worth(SUBMIT, 500, {"errors": [error(2999, "brand new")]}).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, {"status": []}, Kind.ACCEPTED),
        (200, {"status": [{"error": {"code": 2021, "string": "already"}}]}, Kind.ACCEPTED),
        (200, {"status": [{"error": {"code": 2017, "string": "unknown"}}]}, Kind.NOT_KNOWN),
        (200, {"status": [{"error": {"code": 2002, "string": "denied"}}]}, Kind.REFUSED),
        (404, {"errors": [error(2017, "Invalid job id")]}, Kind.NOT_KNOWN),
        (500, {"errors": [error(1, "Operation not permitted")]}, Kind.UNKNOWN),
    ],
)
def test_f37_every_reply_to_a_cancel_is_told_apart(status: int, body: Any, kind: Kind) -> None:
    assert worth(CANCEL, status, body).kind is kind


def test_fields_that_a_server_ignores_are_named() -> None:
    body = {
        "job_id": 1,
        "warnings": [
            {
                "description": 'Ignoring unknown field "hold" of type string',
                "source": "#/job/hold/",
            },
            {"description": "Expected OpenAPI type=integer", "source": "#/job/tasks/"},
            {"description": "Job is held", "source": "slurm_submit_batch_job()"},
        ],
    }
    assert worth(SUBMIT, 200, body).dropped == ("hold", "tasks")


@given(
    st.sampled_from(ALL),
    st.integers(100, 599),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "jobs",
                        "errors",
                        "warnings",
                        "status",
                        "job_id",
                        "results",
                        "meta",
                        "pings",
                        "error",
                        "error_number",
                        "description",
                        "last_update",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=12,
    ),
)
def test_nothing_that_can_arrive_makes_the_reader_fall(
    call: tuple[str, str], status: int, body: Any
) -> None:
    got = worth(call, status, body)
    assert isinstance(got.kind, Kind)
    if got.kind is Kind.SIGHTING:
        assert 200 <= status < 300
