"""What a deployment costs, computed from list prices and stated assumptions.

``python scripts/cost.py`` prints dollars for 1,000 jobs, for 1,000 idle jobs a month and for
standing still; every price and every assumption is an option. ``--markdown`` prints the tables of
docs/reference/cost.md, which a test compares with this.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields

MINUTES = 30 * 24 * 60
PAGES = {
    "lambda": "https://aws.amazon.com/lambda/pricing/",
    "dynamodb": "https://aws.amazon.com/dynamodb/pricing/on-demand/",
    "sqs": "https://aws.amazon.com/sqs/pricing/",
    "eventbridge": "https://aws.amazon.com/eventbridge/pricing/",
    "api-gateway": "https://aws.amazon.com/api-gateway/pricing/",
    "cloudwatch": "https://aws.amazon.com/cloudwatch/pricing/",
    "s3": "https://aws.amazon.com/s3/pricing/",
}
"""Where each price is listed, for us-east-1, without free tiers or discounts."""

SEEN = {
    "AWS": ("https://docs.aws.amazon.com/whitepapers/latest/how-aws-pricing-works/lambda.html", ""),
    "AWS, DynamoDB": ("https://aws.amazon.com/dynamodb/pricing/", ""),
    "Airbyte": ("https://airbyte.com/data-engineering-resources/dynamodb-pricing", "July 2025"),
    "Cloudburn, SQS": ("https://cloudburn.io/blog/amazon-sqs-pricing", "March 2026"),
    "Cloudburn": ("https://cloudburn.io/blog/amazon-eventbridge-pricing", "March 2026"),
    "Go-Cloud": ("https://go-cloud.io/aws-api-gateway-pricing", "2026"),
    "FactualMinds": (
        "https://www.factualminds.com/blog/amazon-cloudwatch-pricing-metrics-logs-alarms-dashboards/",
        "June 2026",
    ),
    "SigNoz": ("https://signoz.io/guides/cloudwatch-pricing", "February 2026"),
    "C3X": ("https://c3x.dev/resources/aws/aws_cloudwatch_metric_alarm", ""),
    "DevNotes": (
        "https://devnotes.tech/understanding-aws-s3-pricing-a-complete-cost-breakdown-with-examples",
        "",
    ),
}
"""Pages that were read for a number, and of when they are; nothing where they don't say."""


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
    metric_month: float = 0.30
    dashboard_month: float = 3.00
    archive_put: float = 5.00 / 1e6
    archive_get: float = 0.40 / 1e6
    archive_gb_month: float = 0.023


PRICED = (
    ("Lambda, a million GB-seconds", "lambda", "lambda_gb_s", 1e6),
    ("Lambda, a million calls", "lambda", "lambda_request", 1e6),
    ("DynamoDB on demand, a million write units", "dynamodb", "table_write_unit", 1e6),
    ("DynamoDB on demand, a million read units", "dynamodb", "table_read_unit", 1e6),
    ("DynamoDB, a GB and month", "dynamodb", "table_gb_month", 1.0),
    ("DynamoDB point-in-time recovery, a GB and month", "dynamodb", "backup_gb_month", 1.0),
    ("SQS, a million requests", "sqs", "queue_request", 1e6),
    ("EventBridge Scheduler, a million calls", "eventbridge", "schedule_call", 1e6),
    ("EventBridge, a million events", "eventbridge", "event", 1e6),
    ("HTTP API, a million requests", "api-gateway", "api_request", 1e6),
    ("CloudWatch Logs, a GB taken in", "cloudwatch", "log_gb", 1.0),
    ("CloudWatch, an alarm and month", "cloudwatch", "alarm_month", 1.0),
    ("CloudWatch, a metric of one's own and month", "cloudwatch", "metric_month", 1.0),
    ("CloudWatch, a dashboard and month", "cloudwatch", "dashboard_month", 1.0),
    ("S3, a million puts", "s3", "archive_put", 1e6),
    ("S3, a million gets", "s3", "archive_get", 1e6),
    ("S3 Standard, a GB and month", "s3", "archive_gb_month", 1.0),
)
"""Each price for people: what it is of, on which page it is listed, its field, and for how many."""

READ_AT = {
    "lambda_gb_s": "AWS",
    "lambda_request": "AWS",
    "table_write_unit": "Airbyte",
    "table_read_unit": "Airbyte",
    "table_gb_month": "AWS, DynamoDB",
    "queue_request": "Cloudburn, SQS",
    "schedule_call": "Cloudburn",
    "event": "Cloudburn",
    "api_request": "Go-Cloud",
    "log_gb": "FactualMinds",
    "alarm_month": "C3X",
    "metric_month": "SigNoz",
    "dashboard_month": "FactualMinds",
    "archive_put": "DevNotes",
    "archive_get": "DevNotes",
    "archive_gb_month": "DevNotes",
}
"""On which of `SEEN` each price was read; one that is not here was compared with no other page."""


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
    kb_a_log: float = 2.0
    clusters: int = 2
    alarms: int = 21
    metrics: int = 6


ASSUMED = (
    ("entries of a job's record", "entries_a_job"),
    ("KB of an entry", "kb_an_entry"),
    ("KB of a header", "kb_a_header"),
    ("looks that find something to do, in a job's life", "passes_a_job"),
    ("questions of people about a job", "reads_a_job"),
    ("seconds of a look, start and network included", "work_s"),
    ("GB of memory of a function", "memory_gb"),
    ("KB of an idle job's line in the index", "kb_a_hint"),
    ("KB of log that a call leaves", "kb_a_log"),
    ("clusters", "clusters"),
    ("alarms", "alarms"),
    ("metrics of its own that always come, beside one a cluster", "metrics"),
)
"""Each assumption for people, and its field."""


def _kb(load: Load) -> float:
    return load.kb_a_header + load.entries_a_job * load.kb_an_entry


def a_job(price: Prices, load: Load) -> dict[str, float]:
    """Return what one job costs from its creation to its end, by what it is spent on."""
    record_kb = _kb(load)
    # A transaction writes everything twice; the head and both its index lines move with each. At
    # its close a record leaves one index and enters another.
    writes = 2 * (record_kb + load.entries_a_job) + 2 * load.entries_a_job + 3
    reads = (load.passes_a_job + load.reads_a_job) * record_kb / 4
    calls = 1 + load.passes_a_job + load.reads_a_job + load.entries_a_job
    return {
        "table": writes * price.table_write_unit + reads * price.table_read_unit,
        "functions": calls * price.lambda_request
        + (load.passes_a_job * load.work_s + 0.1 * (calls - load.passes_a_job))
        * load.memory_gb
        * price.lambda_gb_s,
        "logs": calls * load.kb_a_log / 1e6 * price.log_gb,
        "queue": 3 * load.passes_a_job * price.queue_request,
        "API": (1 + load.reads_a_job) * price.api_request,
        "events": 2 * price.event,
        "storage for a year": _kb(load) / 1e6 * 12 * (price.table_gb_month + price.backup_gb_month),
    }


def an_idle_job(price: Prices, load: Load) -> dict[str, float]:
    """Return what an open job costs a month of which nothing is heard: its line of the index."""
    lines = MINUTES * load.kb_a_hint / 4 / 2
    return {"index read at each tick": lines * price.table_read_unit}


def an_archive(price: Prices, load: Load) -> dict[str, float]:
    """Return what it costs to archive one job and keep the archive for a year."""
    record_kb = _kb(load)
    # Read twice, as it is archived and before it is removed; entries go in transactions.
    writes = 2 * (record_kb + load.entries_a_job) + 6
    reads = 2 * record_kb / 4
    return {
        "table": writes * price.table_write_unit + reads * price.table_read_unit,
        "bucket": price.archive_put + 3 * price.archive_get,
        "storage for a year": record_kb / 1e6 * 12 * price.archive_gb_month,
    }


def standing(price: Prices, load: Load) -> dict[str, float]:
    """Return what a deployment without jobs costs a month."""
    ticks = MINUTES * (1 + load.clusters)
    polls = 30 * 24 * 3600 / 20 * 5
    retention = 30 * 24 * 32 / 2
    return {
        "schedule": MINUTES * price.schedule_call,
        "functions": ticks * (price.lambda_request + 0.3 * load.memory_gb * price.lambda_gb_s),
        "logs": ticks * load.kb_a_log / 1e6 * price.log_gb,
        "queue": (polls + 3 * MINUTES * load.clusters) * price.queue_request,
        "table": (MINUTES * load.clusters * 20 + retention) * price.table_read_unit,
        "alarms": load.alarms * price.alarm_month,
        "metrics": (load.metrics + load.clusters) * price.metric_month,
        "dashboard": price.dashboard_month,
    }


def sums(price: Prices, load: Load) -> tuple[tuple[str, dict[str, float]], ...]:
    """Return every sum with its title, dollars."""

    def thousand(costs: dict[str, float]) -> dict[str, float]:
        return {what: 1000 * cost for what, cost in costs.items()}

    return (
        ("1,000 jobs, from creation to end", thousand(a_job(price, load))),
        ("1,000 idle jobs, a month", thousand(an_idle_job(price, load))),
        ("1,000 jobs archived and removed", thousand(an_archive(price, load))),
        ("A deployment that stands still, a month", standing(price, load)),
    )


def shown(title: str, costs: dict[str, float]) -> str:
    """Return a few lines for people."""
    lines = [f"{title}: ${sum(costs.values()):,.4f}"]
    lines += [f"  {what:24} ${cost:,.4f}" for what, cost in costs.items()]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    aligned = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (head, aligned, *rows)]


def _seen(where: str | None) -> tuple[str, str]:
    if where is None:
        return "not compared", ""
    address, when = SEEN[where]
    return f"[{where.partition(',')[0]}]({address})", when or "it doesn't say"


def markdown(price: Prices, load: Load) -> str:
    """Return the tables of docs/reference/cost.md."""
    lines: list[str] = []
    for title, costs in sums(price, load):
        rows = [(what, f"${cost:,.4f}") for what, cost in costs.items()]
        rows.append(("**together**", f"**${sum(costs.values()):,.2f}**"))
        lines += [f"### {title}", "", *_table(("spent on", "dollars"), rows), ""]
    lines += ["### Prices of us-east-1", ""]
    prices = [
        (
            f"[{what}]({PAGES[page]})",
            f"${round(getattr(price, name) * times, 10):g}",
            *_seen(READ_AT.get(name)),
        )
        for what, page, name, times in PRICED
    ]
    head = ("price, and where AWS lists it", "dollars", "read at", "as of")
    lines += [*_table(head, prices), "", "### Assumptions", ""]
    assumed = [(what, f"{getattr(load, name):g}") for what, name in ASSUMED]
    return "\n".join([*lines, *_table(("what", "number"), assumed)]) + "\n"


def main() -> None:
    """Print the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="as tables, with what they rest on")
    for kind in (Prices, Load):
        for one in fields(kind):
            option = "--" + one.name.replace("_", "-")
            parser.add_argument(option, type=float, default=one.default)
    told = vars(parser.parse_args())
    price = Prices(**{one.name: told[one.name] for one in fields(Prices)})
    load = Load(**{one.name: told[one.name] for one in fields(Load)})
    if told["markdown"]:
        print(markdown(price, load), end="")
        return
    for title, costs in sums(price, load):
        print(shown(title, costs))


if __name__ == "__main__":
    main()
