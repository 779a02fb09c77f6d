"""What a deployment costs, computed from list prices and stated assumptions.

``python scripts/cost.py`` prints dollars for 1,000 jobs, for an idle job and for standing still, a
month each. Prices are list prices of us-east-1 as of November 2026; change what differs for you.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields

MINUTES = 30 * 24 * 60


@dataclass(frozen=True, slots=True)
class Prices:
    """List prices, dollars."""

    lambda_gb_s: float = 0.0000166667
    lambda_request: float = 0.20 / 1e6
    table_write_unit: float = 0.625 / 1e6
    table_read_unit: float = 0.125 / 1e6
    table_gb_month: float = 0.25
    backup_gb_month: float = 0.20
    queue_request: float = 0.40 / 1e6
    schedule_call: float = 1.00 / 1e6
    api_request: float = 1.00 / 1e6
    event: float = 1.00 / 1e6
    log_gb: float = 0.50
    alarm_month: float = 0.10
    dashboard_month: float = 3.00


@dataclass(frozen=True, slots=True)
class Load:
    """What one job does, and how large it is."""

    entries_a_job: int = 12
    kb_an_entry: float = 1.5
    kb_a_header: float = 4.0
    passes_a_job: int = 8
    reads_a_job: int = 6
    work_s: float = 0.8
    memory_gb: float = 1.0
    kb_a_hint: float = 0.5
    clusters: int = 2
    alarms: int = 21


def a_job(price: Prices, load: Load) -> dict[str, float]:
    """Return what one job costs from its creation to its end, by what it is spent on."""
    record_kb = load.kb_a_header + load.entries_a_job * load.kb_an_entry
    # A transaction writes everything twice; the head and both its index lines move with each.
    writes = 2 * (record_kb + load.entries_a_job) + 2 * load.entries_a_job
    reads = (load.passes_a_job + load.reads_a_job) * record_kb / 4
    calls = 1 + load.passes_a_job + load.reads_a_job + load.entries_a_job
    return {
        "table": writes * price.table_write_unit + reads * price.table_read_unit,
        "functions": calls * price.lambda_request
        + (load.passes_a_job * load.work_s + 0.1 * (calls - load.passes_a_job))
        * load.memory_gb
        * price.lambda_gb_s,
        "queue": 3 * load.passes_a_job * price.queue_request,
        "api": (1 + load.reads_a_job) * price.api_request,
        "events": 2 * price.event,
        "storage a year": record_kb / 1e6 * 12 * (price.table_gb_month + price.backup_gb_month),
    }


def an_idle_job(price: Prices, load: Load) -> dict[str, float]:
    """Return what an open job costs a month of which nothing is heard: its line of the index."""
    lines = MINUTES * load.kb_a_hint / 4 / 2
    return {"index read at each tick": lines * price.table_read_unit}


def standing(price: Prices, load: Load) -> dict[str, float]:
    """Return what a deployment without jobs costs a month."""
    ticks = MINUTES * (1 + load.clusters)
    polls = 30 * 24 * 3600 / 20 * 5
    return {
        "schedule": MINUTES * price.schedule_call,
        "functions": ticks * (price.lambda_request + 0.3 * load.memory_gb * price.lambda_gb_s),
        "queue": (polls + 3 * MINUTES * load.clusters) * price.queue_request,
        "table": MINUTES * load.clusters * 20 * price.table_read_unit,
        "alarms": load.alarms * price.alarm_month,
        "dashboard": price.dashboard_month,
    }


def shown(title: str, costs: dict[str, float], times: float = 1) -> str:
    """Return a few lines for people."""
    lines = [f"{title}: ${sum(costs.values()) * times:,.4f}"]
    lines += [f"  {what:24} ${cost * times:,.4f}" for what, cost in costs.items()]
    return "\n".join(lines)


def main() -> None:
    """Print the three sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    for kind in (Prices, Load):
        for one in fields(kind):
            option = "--" + one.name.replace("_", "-")
            parser.add_argument(option, type=float, default=one.default)
    told = vars(parser.parse_args())
    price = Prices(**{one.name: told[one.name] for one in fields(Prices)})
    load = Load(**{one.name: told[one.name] for one in fields(Load)})
    print(shown("1,000 jobs, from creation to end", a_job(price, load), 1000))
    print(shown("1,000 idle jobs, a month", an_idle_job(price, load), 1000))
    print(shown("A deployment that stands still, a month", standing(price, load)))


if __name__ == "__main__":
    main()
