"""Errors as callers see them."""

from collections.abc import Iterator

import pytest

from dispatch import errors
from dispatch.api import CODES, STATUS, problem_of
from dispatch.errors import DispatchError


def taxonomy(kind: type[DispatchError] = DispatchError) -> Iterator[type[DispatchError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "dispatch.errors":
            yield from taxonomy(child)


def test_every_error_of_the_taxonomy_has_a_status() -> None:
    assert set(STATUS) == set(taxonomy())


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in taxonomy()]
    assert len(codes) == len(set(codes))
    assert set(CODES) == set(codes)


@pytest.mark.parametrize("kind", sorted(STATUS, key=repr))
def test_a_problem_names_job_code_and_reason(kind: type[DispatchError]) -> None:
    problem = problem_of(kind("it didn't work", job="jabcdefgh"))
    assert problem.code == kind.code
    assert problem.status == STATUS[kind]
    assert problem.job == "jabcdefgh"
    assert "it didn't work" in problem.detail
    assert problem.title
    assert problem.type.endswith(kind.code)


def test_what_the_caller_must_do_decides_the_class_of_the_status() -> None:
    for kind, status in STATUS.items():
        if issubclass(kind, errors.CallerError | errors.RecordRefused):
            assert 400 <= status < 500, kind
        if issubclass(kind, errors.TryLater):
            assert status == 503, kind
        if issubclass(kind, errors.Unknown):
            assert status == 504, kind


def test_a_refused_record_is_told_with_entry_field_and_rule() -> None:
    refused = errors.InvalidRecord(
        "3 after 1", job="jabcdefgh", entry=4, field="n", rule="not_next_submission"
    )
    problem = problem_of(refused)
    assert (problem.entry, problem.field, problem.rule) == (4, "n", "not_next_submission")


def test_an_error_that_may_have_taken_effect_says_what_to_do() -> None:
    detail = problem_of(errors.CommitUnknown("no reply")).detail
    assert "same key or id" in detail
    assert "same key or id" not in problem_of(errors.StoreUnavailable("no answer")).detail
