"""Who may do what: rules, callers and jobs in, a decision out."""

from typing import Any

import pytest
from pydantic import ValidationError

from dispatch.access import (
    Access,
    Caller,
    Owned,
    Rights,
    Wanted,
    matches,
    rights_of,
    role_of,
)
from dispatch.api.gateway import claims_of
from dispatch.record.codec import canonical
from dispatch.record.names import IntentKind

ISSUER = "oidc:https://login.example.com#"
DEV = "iam:arn:aws:sts::111122223333:assumed-role/Dev/ada@example.com"
ADMIN = "iam:arn:aws:sts::111122223333:assumed-role/Admin/bo"
OTHER_ACCOUNT = "iam:arn:aws:sts::999999999999:assumed-role/Admin/bo"

RULES: dict[str, Any] = {
    "teams": {
        "platform": [{"role": "arn:aws:iam::111122223333:role/Admin"}],
        "vision": [
            {"principal": f"{ISSUER}vi-*"},
            {"claim": "groups", "value": "vision"},
            {"role": "arn:aws:iam::111122223333:role/Dev"},
        ],
        "speech": [{"claim": "groups", "value": "speech"}],
        "guests": [{"principal": f"{ISSUER}guest"}],
    },
    "rules": [
        {"who": ["platform"], "admin": True},
        {
            "who": ["vision"],
            "submit": [{"clusters": ["hpc"], "queues": ["gpu*"], "accounts": ["vision"]}],
            "intents": {"*": "own", "cancel": "team", "hold": "team"},
            "read": "team",
            "tombstone": "own",
        },
        {
            "who": ["speech"],
            "submit": [{"clusters": ["cloud"], "run_as": ["speech"]}],
            "intents": {"cancel": "own"},
            "read": "all",
        },
        {"who": ["vision", "speech"], "submit": [{"clusters": ["test-*"]}]},
    ],
}


def access(rules: dict[str, Any] | None = None) -> Access:
    return Access.model_validate_json(canonical(rules or RULES))


def caller(principal: str, **claims: str) -> Caller:
    return Caller(principal, {name: frozenset(text.split()) for name, text in claims.items()})


ADA = caller(f"{ISSUER}vi-ada")
VICTOR = caller(f"{ISSUER}victor", groups="vision staff")
SPEAKER = caller(f"{ISSUER}sue", groups="speech")
BOTH = caller(f"{ISSUER}both", groups="vision speech")
GUEST = caller(f"{ISSUER}guest")
NOBODY = caller(f"{ISSUER}nobody", groups="other")


def rights(who: Caller) -> Rights:
    return rights_of(access(), who)


@pytest.mark.parametrize(
    ("who", "teams"),
    [
        (ADA, {"vision"}),
        (VICTOR, {"vision"}),
        (BOTH, {"vision", "speech"}),
        (caller(DEV), {"vision"}),
        (caller(ADMIN), {"platform"}),
        (caller(OTHER_ACCOUNT), set()),
        (NOBODY, set()),
        (caller("iam:arn:aws:iam::111122223333:role/Admin"), set()),
    ],
)
def test_principal_role_and_claim_tell_the_team(who: Caller, teams: set[str]) -> None:
    assert rights(who).teams == teams


HPC_GPU = Wanted("hpc", ("gpu-large",), "vision", "vi-ada")


@pytest.mark.parametrize(
    ("who", "wanted", "word"),
    [
        (ADA, HPC_GPU, None),
        (ADA, Wanted("hpc", ("gpu",)), None),
        (ADA, Wanted("hpc", ("cpu",)), "queue cpu"),
        (ADA, Wanted("hpc", ("gpu",), "speech"), "account speech"),
        (ADA, Wanted("cloud"), "cluster cloud"),
        (ADA, Wanted("test-7", ("any",), "any", "any"), None),
        (SPEAKER, Wanted("cloud", (), None, "speech"), None),
        (SPEAKER, Wanted("cloud", (), None, "vision"), "run as vision"),
        (SPEAKER, HPC_GPU, "cluster hpc"),
        (BOTH, HPC_GPU, None),
        (GUEST, Wanted("test-7"), "cluster test-7"),
        (NOBODY, HPC_GPU, "cluster hpc"),
        (caller(ADMIN), Wanted("anywhere", ("any",), "any", "root"), None),
        (caller("local:ada"), Wanted("anywhere"), None),
    ],
)
def test_who_may_submit_where_and_as_whom(who: Caller, wanted: Wanted, word: str | None) -> None:
    refused = rights(who).refuses_submit(wanted)
    assert (refused is None) if word is None else (refused is not None and word in refused)


def test_two_grants_do_not_mix_into_one_that_nobody_gave() -> None:
    rules = {
        "rules": [
            {
                "who": ["*"],
                "submit": [
                    {"clusters": ["a"], "queues": ["x"]},
                    {"clusters": ["b"], "queues": ["y"]},
                ],
            }
        ]
    }
    may = rights_of(access(rules), ADA)
    assert may.refuses_submit(Wanted("a", ("x",))) is None
    assert may.refuses_submit(Wanted("a", ("y",))) is not None
    assert may.refuses_submit(Wanted("b", ("x", "y"))) is not None


ADAS = Owned(ADA.principal)
VICTORS = Owned(VICTOR.principal)
SHARED = Owned(VICTOR.principal, {"team": "vision"})
DEVS = Owned(DEV)
SPEECH = Owned(SPEAKER.principal, {"team": "speech"})
UNREADABLE = Owned(None)


@pytest.mark.parametrize(
    ("who", "kind", "job", "allowed"),
    [
        (ADA, "cancel", ADAS, True),
        (ADA, "requeue", ADAS, True),
        (ADA, "cancel", DEVS, True),
        (ADA, "requeue", DEVS, False),
        (ADA, "cancel", SHARED, True),
        # Victor is a member by a claim, which no record holds: his jobs are shared by their label.
        (ADA, "cancel", VICTORS, False),
        (ADA, "cancel", SPEECH, False),
        (ADA, "cancel", UNREADABLE, False),
        (VICTOR, "give_up", VICTORS, True),
        (VICTOR, "cancel", ADAS, True),
        (VICTOR, "abandon", ADAS, False),
        (SPEAKER, "cancel", SPEECH, True),
        (SPEAKER, "hold", SPEECH, False),
        # The team's rule for vision is no right over speech's jobs.
        (BOTH, "cancel", ADAS, True),
        (BOTH, "cancel", SPEECH, False),
        (GUEST, "cancel", Owned(GUEST.principal), False),
        (NOBODY, "cancel", Owned(NOBODY.principal), False),
        (caller(ADMIN), "abandon", UNREADABLE, True),
        (caller("local:ada"), "abandon", UNREADABLE, True),
    ],
)
def test_who_may_send_which_intent_to_whose_job(
    who: Caller, kind: str, job: Owned, allowed: bool
) -> None:
    may = rights(who)
    assert may.reaches(may.intents[IntentKind(kind)], job) is allowed


@pytest.mark.parametrize(
    ("who", "job", "reads", "tombstones"),
    [
        (ADA, ADAS, True, True),
        (ADA, DEVS, True, False),
        (ADA, SPEECH, False, False),
        (SPEAKER, ADAS, True, False),
        (SPEAKER, UNREADABLE, True, False),
        (GUEST, Owned(GUEST.principal), False, False),
        (caller(ADMIN), UNREADABLE, True, True),
    ],
)
def test_who_may_read_and_tombstone_whose_job(
    who: Caller, job: Owned, reads: bool, tombstones: bool
) -> None:
    may = rights(who)
    assert (may.reaches(may.read, job), may.reaches(may.tombstone, job)) == (reads, tombstones)


def test_without_rules_everybody_may_do_everything() -> None:
    may = rights_of(None, NOBODY)
    assert may.admin
    assert may.refuses_submit(HPC_GPU) is None
    assert may.reaches(may.tombstone, UNREADABLE)


def test_rules_that_grant_nothing_refuse_everything() -> None:
    may = rights_of(access({"rules": []}), ADA)
    assert not may.anything
    assert may.refuses_submit(Wanted("hpc")) is not None
    assert not may.reaches(may.read, ADAS)


def test_a_label_shares_a_job_and_gives_no_right_over_another() -> None:
    """Whoever labels a job lets a team in; labelling one's own says nothing of others' jobs."""
    labelled = Owned(GUEST.principal, {"team": "vision"})
    may = rights(ADA)
    assert may.reaches(may.read, labelled)
    assert not rights(GUEST).reaches(rights(GUEST).read, ADAS)
    unknown = Owned(ADA.principal, {"team": "nowhere"})
    assert rights(caller(DEV)).reaches(rights(caller(DEV)).read, unknown)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("gpu", "gpu", True),
        ("gpu", "gpu2", False),
        ("gpu*", "gpu2", True),
        ("*", "", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("?", "x", False),
        ("a*c", "a\nc", True),
    ],
)
def test_only_the_star_is_special_in_a_pattern(pattern: str, name: str, fits: bool) -> None:
    assert matches(pattern, name) is fits


def test_a_session_s_role_is_told_by_its_account_and_name() -> None:
    assert role_of(DEV) == "arn:aws:iam::111122223333:role/Dev"
    assert role_of("iam:arn:aws-cn:sts::1:assumed-role/A/b") == "arn:aws-cn:iam::1:role/A"
    assert role_of("iam:arn:aws:iam::111122223333:user/ada") is None
    assert role_of("oidc:arn:aws:sts::1:assumed-role/A/b") is None


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ({"rules": [{"who": ["nowhere"]}]}, "nowhere"),
        ({"rules": [{"who": []}]}, "at least 1"),
        ({"rules": [{"who": ["*"], "reads": "own"}]}, "reads"),
        ({"rules": [{"who": ["*"], "read": "everything"}]}, "own"),
        ({"rules": [{"who": ["*"], "intents": {"pray": "own"}}]}, "pray"),
        ({"teams": {"*": []}, "rules": []}, "no team"),
        ({"teams": {"a": [{}]}, "rules": []}, "principal, a role or a claim"),
        ({"teams": {"a": [{"claim": "groups"}]}, "rules": []}, "together"),
        ({}, "rules"),
    ],
)
def test_rules_are_read_strictly(rules: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        Access.model_validate_json(canonical(rules))


@pytest.mark.parametrize(
    ("name", "value", "values"),
    [
        ("groups", "[vision staff]", {"vision", "staff"}),
        ("groups", "vision", {"vision"}),
        ("groups", "vision staff", {"vision staff"}),
        ("groups", ["vision", 7], {"vision"}),
        ("scope", "read write", {"read", "write"}),
        ("groups", "", set()),
        ("admin", True, set()),
    ],
)
def test_a_claim_s_values_are_those_that_the_authorizer_wrote(
    name: str, value: Any, values: set[str]
) -> None:
    event = {"requestContext": {"authorizer": {"jwt": {"claims": {name: value}}}}}
    assert claims_of(event) == {name: values}
