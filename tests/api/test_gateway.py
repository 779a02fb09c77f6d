"""Who calls, by the word of the authorizer alone."""

from typing import Any

import pytest

from dispatch.api.gateway import MAX_ACTOR, actor_of
from dispatch.errors import Forbidden


def event(authorizer: Any) -> dict[str, Any]:
    return {"requestContext": {"authorizer": authorizer}, "body": '{"by":"mallory"}'}


def test_an_iam_principal_is_named_by_its_arn() -> None:
    arn = "arn:aws:sts::111122223333:assumed-role/Researcher/ada"
    assert actor_of(event({"iam": {"userArn": arn}})) == f"iam:{arn}"


def test_a_token_s_principal_is_named_by_issuer_and_subject() -> None:
    claims = {"iss": "https://login.example.com", "sub": "42", "name": "root"}
    assert actor_of(event({"jwt": {"claims": claims}})) == "oidc:https://login.example.com#42"


@pytest.mark.parametrize(
    "authorizer",
    [
        None,
        {},
        {"iam": {}},
        {"iam": None},
        {"iam": {"userArn": ""}},
        {"iam": {"userArn": 7}},
        {"jwt": {"claims": {"iss": "https://login.example.com"}}},
        {"jwt": {"claims": {"sub": "42"}}},
        {"jwt": {"claims": {"iss": "", "sub": ""}}},
        {"lambda": {"user": "root"}},
        {"local": {"user": "root"}},
        {"iam": {"userArn": "arn"}, "jwt": {"claims": {"iss": "i", "sub": "s"}}},
        {"iam": {"userArn": "a" * MAX_ACTOR}},
        "root",
    ],
)
def test_who_bears_no_identity_or_two_is_refused(authorizer: Any) -> None:
    with pytest.raises(Forbidden):
        actor_of(event(authorizer))


def test_an_event_without_a_context_is_refused() -> None:
    with pytest.raises(Forbidden):
        actor_of({})
