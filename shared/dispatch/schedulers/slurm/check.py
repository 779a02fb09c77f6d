"""What `dispatch clusters check` tries on a Slurm cluster. It only reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from dispatch.record.names import ENDED_STATES
from dispatch.schedulers.scheduler import CheckLine
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.conf import PATH, UNSEEN, conf_lines, conf_of
from dispatch.schedulers.slurm.numbers import number
from dispatch.schedulers.slurm.response import SUPPORTED, Answer, Kind, read
from dispatch.schedulers.slurm.session import Doubt, Session
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.tags import marked, named_job

Clock = Callable[[], datetime]

_API = re.compile(r"^/slurm/(v0\.0\.[0-9]+)/")
_TOO_OLD = (
    "Slurm 22.05 and its like are refused: they ignore requeue=false, answer errors with 200, "
    "and their accounting loses exit codes"
)


def checked(cluster: SlurmCluster, session: Session, clock: Clock) -> Sequence[CheckLine]:
    """Return a line for each thing that supervision needs; as `Scheduler.check`."""
    check = _Check(cluster, session, clock)
    lines = [check.version()]
    if not lines[0].ok:
        return lines
    lines += [check.reach(), check.clock()]
    lines += check.jobs()
    lines += check.queues()
    lines += check.accounting()
    lines += check.settings()
    return [*lines, check.follows()]


class _Check:
    def __init__(self, cluster: SlurmCluster, session: Session, clock: Clock) -> None:
        self._cluster = cluster
        self._session = session
        self._clock = clock

    def version(self) -> CheckLine:
        """The API version that is spoken, or what is served instead."""
        try:
            api = self._session.api()
            answer = self._session.ask(request.ping())
        except Doubt as doubt:
            served = self._served()
            if served is None:
                return CheckLine("reach", False, str(doubt))
            if set(served).isdisjoint(SUPPORTED):
                return CheckLine(
                    "version",
                    False,
                    f"{self._cluster.url} serves {', '.join(served) or 'nothing known'}; Dispatch "
                    f"speaks {' and '.join(reversed(SUPPORTED))} (Slurm 24.11 and newer). "
                    + _TOO_OLD,
                )
            return CheckLine("version", False, f"{doubt}; served: {', '.join(served)}")
        more = "" if api == "v0.0.45" else "; in-place requeue needs v0.0.45"
        return CheckLine("version", True, f"Slurm {answer.release}, API {api}{more}")

    def _served(self) -> list[str] | None:
        try:
            reply = self._session.fetch("GET", "/openapi/v3")
        except Doubt:
            return None
        paths = reply.body.get("paths") if isinstance(reply.body, Mapping) else None
        if not isinstance(paths, Mapping):
            return None
        return sorted({found[1] for path in paths if (found := _API.match(str(path)))})

    def reach(self) -> CheckLine:
        """Whether slurmctld answers slurmrestd."""
        try:
            answer = self._session.ask(request.ping())
        except Doubt as doubt:
            return CheckLine("reach", False, str(doubt))
        name = answer.identity
        if answer.kind is not Kind.ACCEPTED:
            return CheckLine("reach", False, answer.detail)
        expected = self._cluster.cluster_name
        if expected is not None and expected != name:
            return CheckLine("identity", False, f"Slurm calls itself {name!r}, not {expected!r}")
        return CheckLine("reach", True, f"slurmctld of cluster {name!r} answers")

    def clock(self) -> CheckLine:
        """How far slurmctld's clock is from ours; it decides when a token ends."""
        before = self._clock()
        body = self._body("slurm", "diag/")
        after = self._clock()
        if isinstance(body, str):
            return CheckLine("clock", False, body)
        statistics = body.get("statistics")
        stamp = number(statistics.get("req_time")) if isinstance(statistics, Mapping) else None
        if stamp is None:
            return CheckLine("clock", False, "slurmctld's diagnostics name no time")
        # Whole seconds: anything between the stamp and the next second is possible.
        behind = before.timestamp() - (stamp + 1)
        ahead = stamp - after.timestamp()
        off = max(behind, ahead, 0.0)
        allowed = self._cluster.bounds.clock_skew_s
        which = "behind" if behind > ahead else "ahead"
        return CheckLine(
            "clock",
            off <= allowed,
            f"slurmctld's clock is {off:.0f} s {which}; clock_skew_s allows {allowed}"
            if off
            else "slurmctld's clock agrees to the second",
        )

    def jobs(self) -> list[CheckLine]:
        """The token's user, what the whole list costs, how long ended jobs stay in it."""
        taken_at = self._clock()
        try:
            answer = self._session.ask(request.jobs())
        except Doubt as doubt:
            return [CheckLine("user", False, str(doubt))]
        if answer.kind is not Kind.SIGHTING:
            return [CheckLine("user", False, f"{answer.kind}: {answer.detail}")]
        took = (self._clock() - taken_at).total_seconds()
        lines = [
            CheckLine(
                "user",
                True,
                f"{self._cluster.user}'s token is taken; the list has {len(answer.rows)} jobs "
                f"and takes {took:.2f} s",
            )
        ]
        lines += self._run_as()
        lines.append(self._retention(answer, taken_at))
        if any(row.federated for row in answer.rows):
            lines.append(
                CheckLine("federation", False, "a federation's list may lack jobs: unsupported")
            )
        loose = [
            row.job_id for row in answer.rows if row.requeue and marked(row.comment, row.extra)
        ]
        if loose:
            shown = ", ".join(map(str, loose[:5]))
            lines.append(
                CheckLine("requeue", False, f"jobs {shown} of ours may be requeued by Slurm itself")
            )
        return lines

    def _run_as(self) -> Iterable[CheckLine]:
        for user in sorted(set(self._cluster.run_as.values())):
            try:
                answer = self._session.ask(request.ping(), user=user)
            except Doubt as doubt:
                yield CheckLine("run_as", False, f"{user}: {doubt}")
            else:
                yield CheckLine("run_as", answer.kind is Kind.ACCEPTED, f"{user}: {answer.detail}")

    def settings(self) -> list[CheckLine]:
        """Slurm's own settings that the declarations rest on, where a version shows them."""
        conf = None
        if self._conf_is_served():
            with suppress(Doubt):
                conf = conf_of(self._session.fetch("GET", PATH).body)
        if conf is None:
            return [CheckLine("settings", True, UNSEEN)]
        return list(conf_lines(self._cluster, conf))

    def _conf_is_served(self) -> bool:
        return "v0.0.45" in (self._served() or ())

    def _retention(self, answer: Answer, now: datetime) -> CheckLine:
        ages = [
            (now - row.ended_at).total_seconds()
            for row in answer.rows
            if row.ended_at is not None and row.meaning.state in ENDED_STATES
        ]
        declared = self._cluster.bounds.retention_s
        seen = (
            f"the oldest ended job still shown ended {max(ages):.0f} s ago"
            if ages
            else ("no ended job is shown now")
        )
        return CheckLine("retention", True, f"{declared} s are declared; {seen}")

    def queues(self) -> list[CheckLine]:
        """Whether each queue's partition exists and takes jobs."""
        body = self._body("slurm", "partitions/")
        if isinstance(body, str):
            return [CheckLine("partitions", False, body)]
        partitions = {
            str(one.get("name")): one
            for one in _list(body, "partitions")
            if isinstance(one, Mapping)
        }
        lines = []
        for name, queue in sorted(self._cluster.queues.items()):
            one = partitions.get(queue.partition)
            if one is None:
                known = ", ".join(sorted(partitions)) or "none"
                detail = f"partition {queue.partition!r} isn't there ({known} are)"
                lines.append(CheckLine(f"queue {name}", False, detail))
                continue
            inner = one.get("partition")
            state = inner.get("state") if isinstance(inner, Mapping) else None
            up = isinstance(state, list) and "UP" in state
            shown = "/".join(map(str, state)) if isinstance(state, list) else "?"
            detail = f"partition {queue.partition} is {shown}{_above(one, partitions)}"
            lines.append(CheckLine(f"queue {name}", up, detail))
        return lines

    def accounting(self) -> list[CheckLine]:
        """Whether accounting answers, knows the accounts and QOS, and keeps our tags."""
        if self._cluster.accounting == "none":
            return [
                CheckLine(
                    "accounting",
                    True,
                    "none is configured: what slurmctld forgets is lost, and nobody can say who "
                    "cancelled",
                )
            ]
        body = self._body("slurmdb", f"user/{self._cluster.user}")
        if isinstance(body, str):
            return [CheckLine("accounting", False, body)]
        lines = [CheckLine("accounting", True, "slurmdbd answers")]
        lines += [self._associated(user) for user in sorted(self._cluster.users)]
        lines += self._qos()
        lines.append(self._tags_kept())
        return lines

    def _associated(self, user: str) -> CheckLine:
        """Whether a user may charge the accounts that the queues name."""
        body = self._body("slurmdb", f"user/{user}?with_assocs")
        if isinstance(body, str):
            return CheckLine("user", False, f"{user}: {body}")
        users = [one for one in _list(body, "users") if isinstance(one, Mapping)]
        if not users:
            return CheckLine("user", False, f"accounting knows no user {user}")
        has = {
            str(one.get("account"))
            for one in _list(users[0], "associations")
            if isinstance(one, Mapping)
        }
        wanted = {one for queue in self._cluster.queues.values() for one in queue.accounts}
        missing = sorted(wanted - has) if has else []
        detail = f"{user} may charge {', '.join(sorted(has)) or '(not told)'}"
        if missing:
            detail += f", not {', '.join(missing)}"
        return CheckLine("user", not missing, detail)

    def _qos(self) -> Iterable[CheckLine]:
        wanted = sorted({one for queue in self._cluster.queues.values() for one in queue.qos})
        if not wanted:
            return
        body = self._body("slurmdb", "qos/")
        if isinstance(body, str):
            yield CheckLine("qos", False, body)
            return
        known = {str(one.get("name")) for one in _list(body, "qos") if isinstance(one, Mapping)}
        missing = [one for one in wanted if one not in known]
        detail = f"missing: {', '.join(missing)}" if missing else f"{', '.join(wanted)} are there"
        yield CheckLine("qos", not missing, detail)

    def _tags_kept(self) -> CheckLine:
        since = int((self._clock() - timedelta(days=7)).timestamp())
        users = ",".join(sorted(self._cluster.users))
        try:
            answer = self._session.ask(
                request.Question("GET", "slurmdb", f"jobs/?users={users}&start_time={since}")
            )
        except Doubt as doubt:
            return CheckLine("accounting tags", False, str(doubt))
        ended = [
            row
            for row in answer.rows
            if named_job(row.name) and row.meaning.state in ENDED_STATES and row.nodes
        ]
        kept = sum(marked(row.comment, row.extra) is not None for row in ended)
        says = self._cluster.accounting
        if not ended:
            detail = f"no ended job of ours there yet; {says!r} is configured"
            return CheckLine("accounting tags", True, detail)
        detail = f"{kept} of {len(ended)} ended jobs of the last week kept their tag"
        if says == "comments" and kept < len(ended):
            detail += "; AccountingStoreFlags needs job_comment or job_extra, or say 'names'"
        return CheckLine("accounting tags", says == "names" or kept == len(ended), detail)

    def follows(self) -> CheckLine:
        """What is declared, and what that rests on."""
        cluster, bounds = self._cluster, self._cluster.bounds
        sign_in = (
            f"a call lands within {cluster.landing_bound_s} s, because its token ends then"
            if cluster.sign_in.kind == "hs256"
            else f"a call is taken to land within {cluster.landing_bound_s} s: the site's token "
            "doesn't bound it"
        )
        running = (
            "running jobs are held and requeued in place"
            if cluster.in_place
            else "running jobs are stopped to hold them, and submitted again on release"
        )
        return CheckLine(
            "declared",
            True,
            f"{sign_in}; {running}; a lost node's process may live {bounds.node_loss_window_s} s",
        )

    def _body(self, book: str, path: str) -> Mapping[str, Any] | str:
        """Return a reply's body, or why there is none."""
        try:
            reply = self._session.fetch("GET", f"/{book}/{self._session.api()}/{path}")
        except Doubt as doubt:
            return str(doubt)
        answer = read(reply)
        if answer.kind is not Kind.ACCEPTED or not isinstance(reply.body, Mapping):
            return f"{answer.kind}: {answer.detail}"
        return reply.body


def _tier(partition: Mapping[str, Any]) -> int:
    priority = partition.get("priority")
    return (number(priority.get("tier")) or 0) if isinstance(priority, Mapping) else 0


def _above(one: Mapping[str, Any], partitions: Mapping[str, Mapping[str, Any]]) -> str:
    """Return which partitions may preempt the jobs of one, where partitions decide that."""
    own = _tier(one)
    above = sorted(name for name, other in partitions.items() if _tier(other) > own)
    if not above:
        return ""
    return f", of tier {own}, below {', '.join(above)}, which may preempt it by partition priority"


def _list(body: Mapping[str, Any], key: str) -> list[Any]:
    value = body.get(key)
    return value if isinstance(value, list) else []
