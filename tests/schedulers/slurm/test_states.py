"""The total table of Slurm's states, flags, reasons and exits."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.record.names import ENDED_STATES, Cause, ObjectState
from dispatch.schedulers.slurm.rows import Malformed, Row, accounting_row, job_row
from dispatch.schedulers.slurm.states import BASES, FLAGS, Evidence, Exit, Meaning, meaning
from tests.schedulers.slurm.fake import exited, recorded

ENDED_BASES = BASES - {"PENDING", "RUNNING", "SUSPENDED"}


def of(*tokens: str, **fields: Any) -> Meaning:
    return meaning(Evidence(tokens, **fields))


def job(**fields: Any) -> Row:
    """Return a recorded running job with some fields changed, as it is read."""
    entry = recorded("v0.0.42/get-job-running")["body"]["jobs"][0]
    row = job_row({**entry, **fields})
    assert isinstance(row, Row)
    return row


def run(**fields: Any) -> Row:
    """Return a recorded run of accounting with some fields changed, as it is read."""
    entry = recorded("v0.0.42/slurmdb-failed-exit-5")["body"]["jobs"][0]
    row = accounting_row({**entry, **fields})
    assert isinstance(row, Row)
    return row


@pytest.mark.parametrize(
    ("base", "state", "cause"),
    [
        ("PENDING", ObjectState.PENDING, None),
        ("RUNNING", ObjectState.RUNNING, None),
        ("SUSPENDED", ObjectState.RUNNING, None),
        ("COMPLETED", ObjectState.SUCCEEDED, None),
        ("CANCELLED", ObjectState.FAILED, Cause.STOPPED),
        ("FAILED", ObjectState.FAILED, Cause.APP_ERROR),
        ("TIMEOUT", ObjectState.FAILED, Cause.TIMEOUT),
        ("NODE_FAIL", ObjectState.FAILED, Cause.NODE_LOST),
        ("PREEMPTED", ObjectState.FAILED, Cause.PREEMPTED),
        ("BOOT_FAIL", ObjectState.ENDING, Cause.LAUNCH_FAILED),
        ("DEADLINE", ObjectState.FAILED, Cause.DEADLINE),
        ("OUT_OF_MEMORY", ObjectState.FAILED, Cause.OUT_OF_MEMORY),
    ],
)
def test_f17_each_base_state_means_one_thing(
    base: str, state: ObjectState, cause: Cause | None
) -> None:
    got = of(base, ran=True, exit=Exit(code=1) if base == "FAILED" else Exit())
    assert (got.state, got.cause) == (state, cause)
    assert (got.alarm is not None) == (base == "BOOT_FAIL")


def test_f17_every_base_with_every_two_flags_means_something() -> None:
    for base in BASES:
        for flags in itertools.combinations(sorted(FLAGS), 2):
            got = of(base, *flags, ran=True)
            swapped = of(*reversed(flags), base, ran=True)
            assert got == swapped
            assert got.state is not ObjectState.GONE
            if got.state is ObjectState.FAILED:
                assert got.cause is not None


@given(st.lists(st.one_of(st.sampled_from(sorted(BASES | FLAGS)), st.text(max_size=12))))
def test_f17_no_list_of_tokens_is_guessed_at(tokens: list[str]) -> None:
    got = of(*tokens, ran=True)
    known = set(tokens) <= BASES | FLAGS and len(set(tokens) & BASES) == 1
    if not known:
        assert got.alarm is not None
        assert got.state not in ENDED_STATES


@pytest.mark.parametrize(
    "tokens", [("NEW_STATE_X",), ("COMPLETED", "NEW_FLAG"), (), ("RUNNING", "FAILED"), ("",)]
)
def test_f17_an_unknown_token_is_refused_loudly_and_never_ended(tokens: tuple[str, ...]) -> None:
    got = of(*tokens)
    assert got.state in (ObjectState.ENDING, ObjectState.RUNNING, ObjectState.PENDING)
    assert got.alarm


@pytest.mark.parametrize(
    ("tokens", "state"),
    [
        (("RUNNING", "COMPLETING"), ObjectState.ENDING),
        (("COMPLETING", "RUNNING"), ObjectState.ENDING),
        (("COMPLETED", "COMPLETING"), ObjectState.ENDING),
        (("CANCELLED", "COMPLETING"), ObjectState.ENDING),
        (("COMPLETED", "STAGE_OUT"), ObjectState.ENDING),
        (("PENDING", "COMPLETING"), ObjectState.ENDING),
        (("FAILED", "REQUEUED"), ObjectState.PENDING),
        (("RUNNING", "CONFIGURING"), ObjectState.PENDING),
        (("RUNNING", "POWER_UP_NODE", "CONFIGURING"), ObjectState.PENDING),
        (("RUNNING", "STOPPED"), ObjectState.RUNNING),
        (("RUNNING", "SIGNALING"), ObjectState.RUNNING),
        (("RUNNING", "RESIZING"), ObjectState.RUNNING),
        (("PENDING", "EXPEDITING"), ObjectState.PENDING),
    ],
)
def test_f17_flags_change_what_a_base_means(tokens: tuple[str, ...], state: ObjectState) -> None:
    got = of(*tokens)
    assert got.state is state
    assert got.alarm is None


@pytest.mark.parametrize("flag", ["REVOKED", "RECONFIG_FAIL", "REQUEUE_FED"])
@pytest.mark.parametrize("base", sorted(BASES))
def test_f17_what_was_never_seen_to_end_is_not_ended(base: str, flag: str) -> None:
    got = of(base, flag, ran=True)
    assert got.state not in ENDED_STATES
    assert got.alarm


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("RUNNING", ("RUNNING",)),
        (["RUNNING"], ("RUNNING",)),
        ("CANCELLED by 1060117793", ("CANCELLED",)),
        ("OUT_OF_ME+", ("OUT_OF_ME+",)),
        ("CA", ("CA",)),
        (None, ("",)),
        (7, ("7",)),
    ],
)
def test_f17_a_state_is_read_as_text_or_list(written: Any, tokens: tuple[str, ...]) -> None:
    row = job(job_state=written)
    assert row.tokens == tokens
    if set(tokens) - BASES:
        assert row.meaning.alarm
        assert row.meaning.state not in ENDED_STATES


def test_f17_the_text_form_names_who_cancelled() -> None:
    row = job(job_state="CANCELLED by 1060117793", exit_code=exited(signal=15))
    assert row.meaning.cause is Cause.STOPPED_OUTSIDE


def test_f17_what_still_runs_its_prolog_has_not_started() -> None:
    assert job(job_state=["RUNNING"], state_reason="Prolog").meaning.state is ObjectState.PENDING
    assert job(job_state=["RUNNING"], state_reason="Prolog").started_at is None


def test_f21_a_preemption_that_requeues_is_one_live_object_all_the_way() -> None:
    steps = [
        job(job_state=["RUNNING"]),
        job(job_state=["RUNNING", "COMPLETING"]),
        job(job_state=["PREEMPTED", "REQUEUED"]),
        job(job_state=["PENDING", "REQUEUED"], restart_cnt=1, state_reason="BeginTime", nodes=""),
        job(job_state=["RUNNING"], restart_cnt=1),
    ]
    assert all(row.meaning.state not in ENDED_STATES for row in steps)
    assert [row.restarts for row in steps] == [0, 0, 0, 1, 1]


def test_f21_a_preemption_that_ends_is_typed() -> None:
    row = job(job_state=["PREEMPTED"], exit_code=exited(signal=15))
    assert (row.meaning.state, row.meaning.cause) == (ObjectState.FAILED, Cause.PREEMPTED)
    assert row.meaning.signal == 15


def test_f22_a_lost_node_ends_for_slurm_without_proof_of_a_stop() -> None:
    row = job(job_state=["NODE_FAIL"], failed_node="n1", exit_code=exited(signal=1))
    assert row.meaning.cause is Cause.NODE_LOST
    assert row.meaning.lost
    assert row.meaning.signal is None


def test_f22_a_lost_node_with_a_requeue_is_live_again() -> None:
    first = job(job_state=["NODE_FAIL", "REQUEUED"])
    then = job(job_state=["RUNNING"], restart_cnt=1, nodes="n2")
    assert first.meaning.state is ObjectState.PENDING
    assert (then.meaning.state, then.restarts, then.nodes) == (ObjectState.RUNNING, 1, ("n2",))


def test_f22_a_cancel_while_the_node_is_cut_off_leaves_its_process_running() -> None:
    row = job(job_state=["CANCELLED"], exit_code=exited(0))
    assert row.meaning.state is ObjectState.FAILED
    assert row.meaning.lost
    for verified in (exited(signal=15), exited(signal=9), exited(143)):
        assert not job(job_state=["CANCELLED"], exit_code=verified).meaning.lost
    never_ran = job(job_state=["CANCELLED"], exit_code=exited(0), nodes="")
    assert not never_ran.meaning.lost


@pytest.mark.parametrize(
    "exit_code", [exited(signal=125), exited(0), "0:125", {"return_code": None, "signal": None}]
)
def test_f23_out_of_memory_is_that_whatever_the_script_returned(exit_code: Any) -> None:
    got = job(job_state=["OUT_OF_MEMORY"], exit_code=exit_code).meaning
    assert (got.state, got.cause) == (ObjectState.FAILED, Cause.OUT_OF_MEMORY)


def test_f23_a_failed_job_whose_extern_step_ran_out_of_memory_is_out_of_memory() -> None:
    got = job(job_state=["FAILED"], exit_code="0:125").meaning
    assert got.cause is Cause.OUT_OF_MEMORY
    assert job(job_state=["FAILED"], state_reason="OutOfMemory").meaning.cause is (
        Cause.OUT_OF_MEMORY
    )


@pytest.mark.parametrize(
    ("fields", "cause", "holder"),
    [
        ({"state_reason": "launch_failed_requeued_held"}, Cause.LAUNCH_FAILED, "slurm"),
        ({"state_description": "launch failed requeued held"}, Cause.LAUNCH_FAILED, "slurm"),
        ({"exit_code": exited(signal=54)}, Cause.LAUNCH_FAILED, "slurm"),
        ({"state_reason": "JobHeldAdmin"}, Cause.HELD_OUTSIDE, "admin"),
        ({"state_reason": "JobHoldMaxRequeue"}, Cause.HELD_OUTSIDE, "slurm"),
        ({"state_description": "job requeued in held state"}, Cause.HELD_OUTSIDE, "site"),
        ({"job_state": ["PENDING", "REQUEUE_HOLD"]}, Cause.HELD_OUTSIDE, "site"),
        ({"job_state": ["PENDING", "SPECIAL_EXIT"]}, Cause.HELD_OUTSIDE, "site"),
        ({"job_state": ["PENDING", "RESV_DEL_HOLD"]}, Cause.HELD_OUTSIDE, "site"),
        ({"job_state": ["FAILED", "SPECIAL_EXIT"]}, Cause.HELD_OUTSIDE, "site"),
        ({"state_reason": "BadConstraints"}, Cause.UNSCHEDULABLE, "slurm"),
        ({"state_reason": "JobHeldUser"}, None, None),
    ],
)
def test_f25_a_hold_names_who_holds_unless_it_may_be_ours(
    fields: dict[str, Any], cause: Cause | None, holder: str | None
) -> None:
    base = {"job_state": ["PENDING"], "hold": True, "nodes": "", "restart_cnt": 1}
    got = job(**{**base, "state_reason": "JobHeldUser", **fields}).meaning
    assert got.state is ObjectState.PENDING
    assert got.held
    assert (got.cause, got.holder) == (cause, holder)


def test_f25_a_hold_is_read_from_the_priority_where_no_field_says_so() -> None:
    entry = recorded("v0.0.42/held-by-submit-hold-true")["body"]["jobs"][0]
    del entry["hold"]
    row = job_row(entry)
    assert isinstance(row, Row)
    assert row.meaning.held


def test_f25_what_is_suspended_keeps_its_nodes_and_is_held_by_somebody() -> None:
    got = job(job_state=["SUSPENDED"]).meaning
    assert (got.state, got.held, got.holder) == (ObjectState.RUNNING, True, "slurm")


def test_f25_a_hold_on_a_running_job_does_not_hold_it() -> None:
    got = job(job_state=["RUNNING"], hold=True).meaning
    assert (got.state, got.held) == (ObjectState.RUNNING, False)


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        ("DependencyNeverSatisfied", True),
        ("PartitionConfig", True),
        ("PartitionNodeLimit", True),
        ("QOSMaxWallDurationPerJobLimit", True),
        ("AssocMaxNodePerJobLimit", True),
        ("QOSMaxJobsPerUserLimit", False),
        ("Resources", False),
        ("Priority", False),
        ("BeginTime", False),
        ("Dependency", False),
        ("PartitionDown", False),
        ("ReqNodeNotAvail", False),
        ("SomethingNew", False),
    ],
)
def test_a_pending_job_has_a_cause_only_where_waiting_does_not_help(
    reason: str, never: bool
) -> None:
    got = job(job_state=["PENDING"], state_reason=reason, nodes="", hold=False).meaning
    assert got.cause is (Cause.UNSCHEDULABLE if never else None)


def test_an_output_file_that_cant_be_opened_is_a_launch_failure() -> None:
    assert job(job_state=["FAILED"], exit_code=exited(signal=53)).meaning.cause is (
        Cause.LAUNCH_FAILED
    )


def test_a_submit_that_was_refused_may_leave_a_failed_record_that_never_ran() -> None:
    got = job(job_state=["FAILED"], state_reason="BadConstraints", nodes="").meaning
    assert (got.state, got.cause) == (ObjectState.FAILED, Cause.UNSCHEDULABLE)


def test_success_with_a_failing_exit_is_refused() -> None:
    got = job(job_state=["COMPLETED"], exit_code=exited(3)).meaning
    assert got.state is ObjectState.ENDING
    assert got.alarm


def test_accounting_says_who_cancelled() -> None:
    by_root = run(
        state={"current": ["CANCELLED"], "reason": "None"},
        kill_request_user="root",
        exit_code=exited(signal=15),
    )
    assert by_root.meaning.cause is Cause.STOPPED_OUTSIDE
    assert "root" in by_root.reason


def test_f30_numbers_and_nodes_are_read_in_every_shape() -> None:
    nodes = {"count": 4, "list": "n[1-4]", "allocation": []}
    shapes: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"nodes": "n[1-4]", "job_resources": None}, ("n1", "n2", "n3", "n4")),
        ({"nodes": None, "job_resources": {"nodes": nodes}}, ("n1", "n2", "n3", "n4")),
        ({"nodes": None, "job_resources": None}, ()),
        ({"nodes": nodes}, ("n1", "n2", "n3", "n4")),
        ({"nodes": ["a", "b"]}, ("a", "b")),
        ({"nodes": "rack[01-02]n[8-9],m1"}, ("rack01n8", "rack01n9", "rack02n8", "rack02n9", "m1")),
        ({"nodes": "broken[1-"}, ("broken[1-",)),
    ]
    for fields, expected in shapes:
        row = job(**fields)
        assert row.nodes == expected


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"set": True, "infinite": False, "number": 3}, 3),
        ({"set": True, "infinite": True, "number": 0}, 0),
        ({"set": False, "infinite": False, "number": 9}, 0),
        (3, 3),
        (None, 0),
        (4294967294, 0),
        ("3", 0),
    ],
)
def test_f30_a_number_is_read_in_every_shape(written: Any, read: int) -> None:
    assert job(restart_cnt=written).restarts == read


def test_f30_an_exit_is_read_as_a_structure_a_wait_status_or_a_pair() -> None:
    for exit_code in (exited(3), 3 << 8, "3:0"):
        got = job(job_state=["FAILED"], exit_code=exit_code).meaning
        assert (got.exit_code, got.signal) == (3, None)
    for exit_code in (exited(signal=9), 9, "0:9"):
        got = job(job_state=["FAILED"], exit_code=exit_code).meaning
        assert (got.exit_code, got.signal) == (None, 9)


def test_f30_an_unknown_field_changes_nothing_and_a_missing_one_is_named() -> None:
    assert job(brand_new={"deep": [1]}).meaning == job().meaning
    entry = recorded("v0.0.42/get-job-running")["body"]["jobs"][0]
    del entry["job_state"]
    bad = job_row(entry)
    assert isinstance(bad, Malformed)
    assert "job_state" in bad.reason


def test_f32_a_part_of_an_array_or_of_a_heterogeneous_job_is_none_of_ours() -> None:
    number = {"set": True, "infinite": False, "number": 2653325}
    zero = {"set": True, "infinite": False, "number": 0}
    assert job(array_job_id=number).of_many
    assert job(array_job_id=2653325).of_many
    assert job(het_job_id=number).of_many
    assert not job(array_job_id=zero, het_job_id=zero).of_many
    assert not job(array_job_id={"set": False, "infinite": False, "number": 0}).of_many


@pytest.mark.parametrize("written", ["56502501_[1%1]", "12_[0-20:5]", "12_[1-4,7%2]", "21+0", ""])
def test_f32_the_ids_of_parts_are_no_ids(written: str) -> None:
    entry = recorded("v0.0.42/get-job-running")["body"]["jobs"][0]
    assert isinstance(job_row({**entry, "job_id": written}), Malformed)


def test_a_pending_jobs_times_are_slurms_guesses_and_left_out() -> None:
    row = job(job_state=["PENDING"], nodes="")
    assert row.started_at is None
    assert row.ended_at is None
    assert job(job_state=["RUNNING"]).ended_at is None


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "job_id",
                "job_state",
                "nodes",
                "exit_code",
                "restart_cnt",
                "submit_time",
                "priority",
                "hold",
                "requeue",
                "comment",
                "array_job_id",
                "state_reason",
                "job_resources",
            ]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["set", "number", "signal", "id"]), inner)
            ),
            max_leaves=6,
        ),
    )
)
def test_no_shape_of_a_job_makes_the_reader_fall(entry: dict[str, Any]) -> None:
    assert isinstance(job_row(entry), Row | Malformed)
    assert isinstance(accounting_row(entry), Row | Malformed)


def test_ended_bases_are_all_judged() -> None:
    for base in ENDED_BASES - {"BOOT_FAIL"}:
        assert of(base, ran=True).state in ENDED_STATES
