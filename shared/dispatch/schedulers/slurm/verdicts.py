"""What the numbers of Slurm's errors mean for a call; pure.

The numbers are Slurm's own, from its `slurm_errno.h`. A number that isn't here is doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dispatch.record.names import Cause


class Verdict(StrEnum):
    """What an error says about the call that it answers."""

    CREDENTIALS = "credentials"
    WRONG_VERSION = "wrong_version"
    DOUBT = "doubt"
    REFUSED = "refused"
    NOT_KNOWN = "not_known"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged error.

    Attributes:
        verdict: What it says about the call.
        about: What a person must look at: partition, account, qos, limits, ….
        cause: Why a Start was refused, where it was.
    """

    verdict: Verdict
    about: str = ""
    cause: Cause | None = None


JOB_HELD: Final = 2042

NOTES: Final = frozenset({2015, 2016, 2040, 2042, 2050, 2055, 2056, 2068, 2074, 2100, 2101, 2118})
"""Errors of a job that was accepted and waits: beside a job id they are notes."""

_CREDENTIALS: Final = (1007, 6000, 6001, 6004, 6007, 6008, 6009, 6010, 9008)
_WRONG_VERSION: Final = (9007,)
_NOT_KNOWN: Final = (2017, 9003)
_DONE: Final = (2021,)

# Time, or a person at the site, may lift these; the same spec can succeed later.
_LATER: Final[dict[str, tuple[int, ...]]] = {
    "limits": (2007, 2050, 2074, 2076, 2093, 2169),
    "partition": (2070, 2101),
    "nodes": (2015, 2016, 2035, 2068, 2078, 2120, 2125, 2177, 2179),
    "licenses": (2040,),
    "reservation": (2055, 2056, 2104, 2118),
    "permission": (2002, 2010, 2052, 2092, 2113, 2129, 2130, 2163, 2164, 2165, 2166),
    "script": (2019,),
    "controller": (2049, 2100, 2105),
    "disabled": (2036, 2037),
    "state": (2020, 2024, 2061, 2073, 2077, 2083, 2084, 2085, 2086, 2087, 2088, 2181),
}
# The spec itself has to change.
_NEVER: Final[dict[str, tuple[int, ...]]] = {
    "partition": (2000, 2001, 2003, 2004),
    "account": (2045, 2046, 2047, 2167),
    "qos": (2066, 2067, 2170),
    "limits": (2051, 2054, 2124, 8000),
    "script": (2009, 2012),
    "environment": (2127,),
    "dependency": (2038, 2071),
    "nodes": (2005, 2006, 2008, 2018, 2023, 2025, 2028, 2031, 2069, 2111, 2132, 2180),
    "features": (2029, 2114, 2121, 2133),
    "memory": (2044,),
    "gres": (2072, 2102, 2115, 2119, 2122, 2134),
    "licenses": (2048,),
    "reservation": (2053, 2080, 2082, 2128),
    "wckey": (2057,),
    "workdir": (2063,),
    "job id": (2011, 2039, 2081, 2106, 2107, 2108, *range(2136, 2160)),
    "nice": (2123,),
    "extra": (2171,),
    "container": (2135, 10000),
    "burst buffer": (2091, 2094),
    "label": (2099,),
    "request": (2162, 2173, 9000, 9001, 9002, 9004, 9005, 9009, *range(9200, 9217)),
}

_TABLE: Final[dict[int, Judged]] = {
    **{number: Judged(Verdict.CREDENTIALS) for number in _CREDENTIALS},
    **{number: Judged(Verdict.WRONG_VERSION) for number in _WRONG_VERSION},
    **{number: Judged(Verdict.NOT_KNOWN, "job id") for number in _NOT_KNOWN},
    **{number: Judged(Verdict.DONE) for number in _DONE},
    **{
        number: Judged(Verdict.REFUSED, about, Cause.START_REFUSED)
        for about, numbers in _LATER.items()
        for number in numbers
    },
    **{
        number: Judged(Verdict.REFUSED, about, Cause.INVALID_SPEC)
        for about, numbers in _NEVER.items()
        for number in numbers
    },
    # Slurm may keep a FAILED record of it, which never runs and carries the tag.
    2014: Judged(Verdict.REFUSED, "nodes", Cause.UNSCHEDULABLE),
    2178: Judged(Verdict.REFUSED, "nodes", Cause.UNSCHEDULABLE),
}

_WORDS: Final[tuple[tuple[str, int], ...]] = (
    ("invalid job id", 2017),
    ("unknown job", 2017),
    ("unable to find jobid", 2017),
    ("authentication", 1007),
    ("invalid partition name", 2000),
    ("invalid account", 2045),
    ("invalid qos", 2066),
    ("access/permission denied", 2002),
    ("already completing or completed", 2021),
    ("job has already finished", 2084),
    ("job is in held state", 2042),
    ("job is held", 2042),
)
"""Phrases of old shapes that carry no number."""

_UNNUMBERED: Final = (None, 0, -1)


def judged(number: int | None, words: str) -> Judged:
    """Return what one error means; by its number, or by its words where it has none."""
    if number in _UNNUMBERED:
        number = number_of(words)
    if number is None:
        return Judged(Verdict.DOUBT)
    return _TABLE.get(number, Judged(Verdict.DOUBT))


def number_of(words: str) -> int | None:
    """Return the number that an error's words stand for, where they are known."""
    lowered = words.lower()
    return next((number for phrase, number in _WORDS if phrase in lowered), None)
