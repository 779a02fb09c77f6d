"""Who may do what: rules of the clusters' document, decided about one caller. Pure.

Once there are rules, what none of them grants is refused. Grants add up; no rule takes away what
another gives. Without rules, whoever the authorizer lets in may do everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dispatch.record.model import Model, Name
from dispatch.record.names import IntentKind

TEAM_LABEL = "team"
"""The label that says whose a job is beside its creator's; it shares the job, and no other's."""

EVERYONE = "*"
LOCAL = "local:"
"""What the one-machine stack's only user is named by; the authorizers name nobody so."""

_ASSUMED = re.compile(r"iam:arn:([^:]+):sts::(\d+):assumed-role/([^/]+)/")

Pattern = Annotated[str, Field(min_length=1, max_length=256)]
"""A name in which `*` stands for any run of characters, and everything else for itself."""


class Scope(StrEnum):
    """Whose jobs a grant is about; each includes the one before."""

    OWN = "own"
    TEAM = "team"
    ALL = "all"


class Member(Model):
    """What tells that a caller belongs to a team; all that is given must hold.

    Attributes:
        principal: A pattern of the actor: `iam:{arn}` or `oidc:{iss}#{sub}`.
        role: A pattern of an IAM role's ARN; it holds for every session of the role.
        claim: A claim of the token, with
        value: the value that it has, or has among others.
    """

    principal: Pattern | None = None
    role: Pattern | None = None
    claim: Name | None = None
    value: Name | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.principal is None and self.role is None and self.claim is None:
            raise PydanticCustomError("member_empty", "give a principal, a role or a claim")
        if (self.claim is None) != (self.value is None):
            raise PydanticCustomError("member_claim", "a claim and its value go together")
        return self

    def is_met(self, caller: Caller) -> bool:
        """Return whether a caller is meant."""
        if self.claim is not None and self.value not in caller.claims.get(self.claim, ()):
            return False
        return self._names(caller.principal)

    def names_creator(self, principal: str) -> bool:
        """Return whether a job's creator is meant; claims don't stand in a record."""
        return self.claim is None and self._names(principal)

    def _names(self, principal: str) -> bool:
        if self.principal is not None and not matches(self.principal, principal):
            return False
        if self.role is None:
            return True
        role = role_of(principal)
        return role is not None and matches(self.role, role)


class Submitting(Model):
    """One way in which jobs may be submitted; all four must fit.

    Attributes:
        clusters: Patterns of clusters.
        queues: Patterns of the queue, the cluster's own default included.
        accounts: Patterns of who is charged, where the spec names an account.
        run_as: Patterns of whom the cluster runs the job as: a Unix user (Slurm), a namespace
            (Kubernetes).
    """

    clusters: tuple[Pattern, ...] = (EVERYONE,)
    queues: tuple[Pattern, ...] = (EVERYONE,)
    accounts: tuple[Pattern, ...] = (EVERYONE,)
    run_as: tuple[Pattern, ...] = (EVERYONE,)


class AccessRule(Model):
    """What the members of some teams may do.

    Attributes:
        who: Names of teams; `*` for everybody whom the authorizer lets in.
        submit: In which ways they may submit jobs.
        intents: Whose jobs they may send which intent to; `*` for all seven.
        read: Whose jobs they may read: status, history, export, output, listings.
        tombstone: Whose settled jobs they may tombstone.
        admin: Everything, and what concerns a whole cluster.
    """

    who: Annotated[tuple[Name, ...], Field(min_length=1)]
    submit: tuple[Submitting, ...] = ()
    intents: dict[Literal["*"] | IntentKind, Scope] = Field(default_factory=dict)
    read: Scope | None = None
    tombstone: Scope | None = None
    admin: bool = False


class Access(Model):
    """Teams and rules.

    Attributes:
        teams: Who belongs to which team; a caller whom one member describes does.
        rules: What they may do.
    """

    teams: dict[Name, tuple[Member, ...]] = Field(default_factory=dict)
    rules: tuple[AccessRule, ...]

    @model_validator(mode="after")
    def _teams_are_there(self) -> Self:
        if EVERYONE in self.teams:
            raise PydanticCustomError("team_name", "no team can be named *")
        for rule in self.rules:
            for name in rule.who:
                if name != EVERYONE and name not in self.teams:
                    raise PydanticCustomError(
                        "team_unknown", "who: there is no team {name}", {"name": repr(name)}
                    )
        return self

    def teams_of(self, caller: Caller) -> frozenset[str]:
        """Return the teams that a caller belongs to."""
        return frozenset(
            name
            for name, members in self.teams.items()
            if any(member.is_met(caller) for member in members)
        )

    def teams_owning(self, job: Owned) -> frozenset[str]:
        """Return the teams that a job belongs to: by its label, else by who created it."""
        labelled = job.labels.get(TEAM_LABEL)
        if labelled in self.teams:
            return frozenset({labelled})
        creator = job.created_by
        if creator is None:
            return frozenset()
        return frozenset(
            name
            for name, members in self.teams.items()
            if any(member.names_creator(creator) for member in members)
        )


# --- who, and whose ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, by the authorizer's word.

    Attributes:
        principal: The actor.
        claims: The values of each claim of its token.
    """

    principal: str
    claims: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Owned:
    """Whose a job is.

    Attributes:
        created_by: Who submitted it; None where its header can't tell.
        labels: Of its spec.
    """

    created_by: str | None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a submission asks for.

    Attributes:
        cluster: Which cluster.
        queues: Every queue it names; the cluster's default where it names none.
        account: Who is to be charged, where it says.
        run_as: Whom the cluster would run it as; None where it knows only one.
    """

    cluster: str
    queues: tuple[str, ...] = ()
    account: str | None = None
    run_as: str | None = None


def matches(pattern: str, name: str) -> bool:
    """Return whether a name fits a pattern; only `*` is special."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), name, re.DOTALL) is not None


def role_of(principal: str) -> str | None:
    """Return the ARN of the IAM role whose session a principal is, without the role's path."""
    met = _ASSUMED.match(principal)
    if met is None:
        return None
    partition, account, name = met.groups()
    return f"arn:{partition}:iam::{account}:role/{name}"


# --- what a caller may do ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """Whose jobs a caller reaches with one kind of request.

    Attributes:
        own: Those that it created.
        teams: Those of these teams.
        all: Every job.
    """

    own: bool = False
    teams: frozenset[str] = frozenset()
    all: bool = False

    @property
    def none(self) -> bool:
        """Whether it reaches no job."""
        return not (self.own or self.teams or self.all)

    @property
    def widest(self) -> Scope | None:
        """The widest scope in it."""
        if self.all:
            return Scope.ALL
        if self.teams:
            return Scope.TEAM
        return Scope.OWN if self.own else None

    def with_scope(self, scope: Scope, teams: frozenset[str]) -> Reach:
        """Return what is reached with one grant more."""
        shared = self.teams if scope is Scope.OWN else self.teams | teams
        return Reach(True, shared, self.all or scope is Scope.ALL)


EVERY_JOB = Reach(own=True, all=True)
NO_JOB = Reach()


@dataclass(frozen=True, slots=True)
class Rights:
    """What one caller may do.

    Attributes:
        caller: Who.
        access: The rules; None where there are none.
        admin: Whether everything.
        teams: The teams that the caller belongs to.
        submits: In which ways jobs may be submitted.
        intents: Whose jobs may be sent each intent.
        read: Whose jobs may be read.
        tombstone: Whose may be tombstoned.
    """

    caller: Caller
    access: Access | None
    admin: bool
    teams: frozenset[str]
    submits: tuple[Submitting, ...]
    intents: Mapping[IntentKind, Reach]
    read: Reach
    tombstone: Reach

    @property
    def anything(self) -> bool:
        """Whether any rule grants the caller anything."""
        reaches = (*self.intents.values(), self.read, self.tombstone)
        return self.admin or bool(self.submits) or not all(one.none for one in reaches)

    def reaches(self, reach: Reach, job: Owned) -> bool:
        """Return whether a job is among those that are reached."""
        if reach.all:
            return True
        if reach.own and job.created_by == self.caller.principal:
            return True
        return self.access is not None and bool(reach.teams & self.access.teams_owning(job))

    def refuses_submit(self, wanted: Wanted) -> str | None:
        """Return why a submission is refused, None where it may be."""
        if self.admin:
            return None
        left = [one for one in self.submits if _any(one.clusters, (wanted.cluster,))]
        if not left:
            return f"submit to cluster {wanted.cluster}"
        left = [one for one in left if _any(one.queues, wanted.queues)]
        if not left:
            return f"submit to queue {', '.join(wanted.queues)} of cluster {wanted.cluster}"
        if wanted.account is not None:
            left = [one for one in left if _any(one.accounts, (wanted.account,))]
        if not left:
            return f"charge account {wanted.account} on cluster {wanted.cluster}"
        if wanted.run_as is not None:
            left = [one for one in left if _any(one.run_as, (wanted.run_as,))]
        if not left:
            return f"run as {wanted.run_as} on cluster {wanted.cluster}"
        return None


def _any(patterns: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether each name fits one of the patterns."""
    given = tuple(patterns)
    return all(any(matches(one, name) for one in given) for name in names)


def rights_of(access: Access | None, caller: Caller) -> Rights:
    """Return what a caller may do by these rules.

    Args:
        access: The rules; None where there are none, and everybody may do everything.
        caller: Who.
    """
    everything = dict.fromkeys(IntentKind, EVERY_JOB)
    if access is None or caller.principal.startswith(LOCAL):
        return _all_rights(caller, access, frozenset(), everything)
    teams = access.teams_of(caller)
    rules = [one for one in access.rules if EVERYONE in one.who or teams & set(one.who)]
    if any(rule.admin for rule in rules):
        return _all_rights(caller, access, teams, everything)
    intents = dict.fromkeys(IntentKind, NO_JOB)
    read = tombstone = NO_JOB
    for rule in rules:
        # `team` in a rule about one team is about that team's jobs, not about another's.
        shared = teams if EVERYONE in rule.who else teams & set(rule.who)
        for kind, scope in rule.intents.items():
            for one in IntentKind if kind == "*" else (kind,):
                intents[one] = intents[one].with_scope(scope, shared)
        if rule.read is not None:
            read = read.with_scope(rule.read, shared)
        if rule.tombstone is not None:
            tombstone = tombstone.with_scope(rule.tombstone, shared)
    submits = tuple(dict.fromkeys(one for rule in rules for one in rule.submit))
    return Rights(caller, access, False, teams, submits, intents, read, tombstone)


def _all_rights(
    caller: Caller,
    access: Access | None,
    teams: frozenset[str],
    intents: Mapping[IntentKind, Reach],
) -> Rights:
    return Rights(caller, access, True, teams, (Submitting(),), intents, EVERY_JOB, EVERY_JOB)
