"""What a Slurm's own configuration says, held against the declarations; pure.

Only API v0.0.45 shows it (`conf`). An older Slurm's has to be read by a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dispatch.schedulers.scheduler import CheckLine
from dispatch.schedulers.slurm.numbers import number
from dispatch.schedulers.slurm.settings import SlurmCluster

PATH: Final = "/slurm/v0.0.45/conf"

UNSEEN: Final = (
    "only API v0.0.45 shows it; look yourself (scontrol show config) at MinJobAge, PreemptMode, "
    "RequeueExit, PrologFlags and SchedulerParameters"
)

_CRED_EXPIRE = re.compile(r"(?:^|,)cred_expire=([0-9]+)(?:,|\Z)")
_CRED_EXPIRE_S = 120
_PREEMPTED = {
    "CANCEL": "a preempted job ends as PREEMPTED, and the plan decides",
    "REQUEUE": "a preempted job of ours is cancelled, since its requeue is off: the plan decides",
    "SUSPEND": "a preempted job is suspended: shown as running, held by slurm",
    "GANG": "jobs take turns: shown as running, held by slurm while they wait",
    "WITHIN": "jobs of one QOS may preempt each other",
    "OFF": "nothing is preempted",
}


def conf_of(body: Any) -> Mapping[str, Any] | None:
    """Return the configuration in a reply, or nothing where it has none."""
    found = body.get("slurm_conf") if isinstance(body, Mapping) else None
    return found if isinstance(found, Mapping) else None


def conf_lines(cluster: SlurmCluster, conf: Mapping[str, Any]) -> Iterator[CheckLine]:
    """Yield a line for each setting that matters here."""
    yield _retention(cluster, conf)
    yield _preemption(conf)
    yield _requeue(cluster, conf)
    yield from _accounting(cluster, conf)
    if _words(conf, "Prolog") and "ALLOC" not in _upper(conf, "PrologFlags"):
        yield CheckLine(
            "prolog",
            False,
            "PrologFlags has no Alloc: a prolog that fails looks like a cancel by root",
        )
    scheduling = {word.partition("=")[0] for word in _words(conf, "SchedulerParameters")}
    if "extra_constraints" in scheduling and cluster.tag_in_extra:
        yield CheckLine(
            "extra",
            False,
            'SchedulerParameters has extra_constraints: say "tag_in_extra": false, or no job of '
            "ours is ever placed",
        )
    if "JOBS" in _upper(conf, "PrivateData") and cluster.run_as and cluster.sees_all_jobs:
        yield CheckLine(
            "private data",
            True,
            f"PrivateData hides jobs: {cluster.user} must be an operator, or say "
            '"sees_all_jobs": false',
        )


def _retention(cluster: SlurmCluster, conf: Mapping[str, Any]) -> CheckLine:
    age, declared = number(conf.get("MinJobAge")), cluster.bounds.retention_s
    if age is None:
        return CheckLine("MinJobAge", False, "its configuration names no MinJobAge")
    return CheckLine(
        "MinJobAge",
        age >= declared,
        f"{age} s; {declared} s are declared (bounds.retention_s)",
    )


def _preemption(conf: Mapping[str, Any]) -> CheckLine:
    modes = _upper(conf, "PreemptMode") or ["OFF"]
    kind = str(conf.get("PreemptType") or "").rpartition("/")[2] or "none"
    means = "; ".join(_PREEMPTED.get(one, "not known here: look at it") for one in modes)
    known = all(one in _PREEMPTED for one in modes)
    detail = f"PreemptMode {','.join(modes)} (by {kind}): {means}"
    return CheckLine("preemption", known, detail)


def _requeue(cluster: SlurmCluster, conf: Mapping[str, Any]) -> CheckLine:
    default = "on" if conf.get("JobRequeue") in (True, 1) else "off"
    said = [f"JobRequeue is {default}, and off in every job of ours"]
    exits = [*_words(conf, "RequeueExit"), *_words(conf, "RequeueExitHold")]
    if exits:
        said.append(f"exit codes {', '.join(exits)} have Slurm run a job again (RequeueExit)")
    if cluster.in_place:
        found = _CRED_EXPIRE.search(str(conf.get("AuthInfo") or ""))
        waits = int(found[1]) if found is not None else _CRED_EXPIRE_S
        said.append(f"one that is requeued in place waits {waits + 1} s (cred_expire)")
    return CheckLine("requeue settings", True, "; ".join(said))


def _accounting(cluster: SlurmCluster, conf: Mapping[str, Any]) -> Iterator[CheckLine]:
    stored = "slurmdbd" in str(conf.get("AccountingStorageType") or "")
    if cluster.accounting == "none":
        return
    if not stored:
        yield CheckLine(
            "accounting settings",
            False,
            'AccountingStorageType has no slurmdbd: say "accounting": "none"',
        )
        return
    flags = {one.lower() for one in _words(conf, "AccountingStoreFlags")}
    kept = "job_comment" in flags or ("job_extra" in flags and cluster.tag_in_extra)
    if cluster.accounting == "comments" and not kept:
        yield CheckLine(
            "accounting settings",
            False,
            "AccountingStoreFlags has neither job_comment nor job_extra: add one, or say "
            '"accounting": "names"',
        )
        return
    yield CheckLine(
        "accounting settings",
        True,
        f"AccountingStoreFlags {','.join(sorted(flags)) or 'none'}; {cluster.accounting!r} is "
        "configured",
    )


def _words(conf: Mapping[str, Any], key: str) -> list[str]:
    value = conf.get(key)
    if isinstance(value, str):
        value = value.split(",")
    return (
        [str(one).strip() for one in value if str(one).strip()] if isinstance(value, list) else []
    )


def _upper(conf: Mapping[str, Any], key: str) -> list[str]:
    return [one.upper() for one in _words(conf, key)]
