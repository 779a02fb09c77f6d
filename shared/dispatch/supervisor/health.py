"""A cluster's health after a look: pure; and the word of a person about a loss, which is kept.

An error is never an answer (protocol §1): what stands here is for people, and decides at most how
soon a cluster is asked again. Nothing about a job is concluded from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from dispatch.store.records import ClusterHealth, ClusterTrouble, Health

if TYPE_CHECKING:
    from dispatch.supervisor.sweep import Swept

UNREACHABLE_AFTER_S = 60
"""Seconds for which a cluster is silent before that is a trouble of its own."""

LONGEST_PAUSE_S = 120
"""At most how long a cluster that doesn't answer isn't asked."""

SHOWN = 10
"""Lines of what was withheld that are kept."""

UNREACHABLE = "unreachable"
MASS_LOSS = "mass_loss"


def health_after(
    swept: Swept, before: ClusterHealth | None, *, by: str, now: datetime
) -> ClusterHealth:
    """Return a cluster's health after one look."""
    was = before or ClusterHealth(swept.cluster, by, now)
    found = swept.found
    last, identity = was.last_complete_find, was.identity
    escalations = dict(was.escalations)
    if swept.mass_loss is not None:
        escalations[MASS_LOSS] = swept.mass_loss
    elif found is not None and found.complete:
        escalations.pop(MASS_LOSS, None)
    if found is not None and found.complete:
        last, identity = found.taken_at, found.identity
    failing = (was.failing_since or now) if swept.unreachable else None
    wrong = {}
    if failing is not None and now >= failing + timedelta(seconds=UNREACHABLE_AFTER_S):
        wrong[UNREACHABLE] = swept.error or "no answer"
    if MASS_LOSS in escalations:
        wrong[MASS_LOSS] = escalations[MASS_LOSS]
    return ClusterHealth(
        cluster=swept.cluster,
        supervisor=by,
        last_tick=now,
        last_complete_find=last,
        last_error=swept.error or swept.mass_loss,
        identity=identity,
        escalations=tuple(sorted(escalations.items())),
        loss_accepted_at=was.loss_accepted_at,
        failing_since=failing,
        retry_at=None if failing is None else _retry_at(failing, now),
        troubles=_troubles(was.troubles, wrong, now),
        told=was.told,
        withheld=tuple(swept.withheld[:SHOWN]) or _still(swept, was),
    )


def _still(swept: Swept, was: ClusterHealth) -> tuple[str, ...]:
    """Return what stays withheld of jobs that this look had no reason to look at again."""
    return was.withheld if swept.braked and not swept.whole else ()


def _retry_at(failing: datetime, now: datetime) -> datetime | None:
    """Return when to ask again: half as long again as it has failed, at most two minutes."""
    pause_s = min(LONGEST_PAUSE_S, (now - failing).total_seconds() / 2)
    return now + timedelta(seconds=pause_s) if pause_s >= 1 else None


def _troubles(
    were: Iterable[ClusterTrouble], wrong: dict[str, str], now: datetime
) -> tuple[ClusterTrouble, ...]:
    since = {one.kind: one.since for one in were}
    return tuple(
        ClusterTrouble(kind, since.get(kind, now), detail) for kind, detail in sorted(wrong.items())
    )


def asked_again(health: ClusterHealth | None, now: datetime) -> bool:
    """Return whether a cluster is to be asked now, or is left alone for having failed."""
    return health is None or health.retry_at is None or now >= health.retry_at


def own_outage(healths: Iterable[ClusterHealth | None]) -> bool:
    """Return whether all of several clusters are silent: the fault is then likely on this side."""
    silent = [one is not None and one.failing_since is not None for one in healths]
    return len(silent) > 1 and all(silent)


# --- a person's word --------------------------------------------------------------------------


def accept_loss(store: Health, cluster: str, *, by: str, at: datetime) -> None:
    """Keep a person's word that a mass loss, or a new identity, of a cluster is real.

    It is kept beside the cluster's health, which a look that is under way would write over.

    Raises:
        StoreUnavailable: Try again.
    """
    store.put_health(ClusterHealth(_word_of(cluster), by, at, loss_accepted_at=at))


def loss_accepted_at(store: Health, cluster: str, health: ClusterHealth | None) -> datetime | None:
    """Return when a person last gave that word, None where nobody did.

    Raises:
        StoreUnavailable: Try later.
    """
    word = store.get_health(_word_of(cluster))
    times = [one.loss_accepted_at for one in (health, word) if one is not None]
    return max((at for at in times if at is not None), default=None)


def _word_of(cluster: str) -> str:
    # No cluster is named so: a name has no slash.
    return f"{cluster}/accepted"


# --- whole looks ------------------------------------------------------------------------------


def looked_whole(
    store: Health, cluster: str, shard: tuple[int, int], *, build: str, by: str, at: datetime
) -> None:
    """Write down when a build looked at every open job of a shard with one complete Find.

    It stands apart from the cluster's health, which the looks at other shards write over.

    Raises:
        StoreUnavailable: The next tick looks at everything again.
    """
    store.put_health(ClusterHealth(_whole_of(cluster, shard, build), by, at))


def last_whole_look(
    store: Health, cluster: str, shard: tuple[int, int], *, build: str
) -> datetime | None:
    """Return when a build last looked at a whole shard, None where it never did.

    Raises:
        StoreUnavailable: Try later.
    """
    health = store.get_health(_whole_of(cluster, shard, build))
    return None if health is None else health.last_tick


def _whole_of(cluster: str, shard: tuple[int, int], build: str) -> str:
    return f"{cluster}/whole/{shard[0]}of{shard[1]}/{build}"
