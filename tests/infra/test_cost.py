"""The script that computes costs follows its numbers, and the page shows what it computes."""

import subprocess
import sys
from dataclasses import fields, replace

from dispatch.signals import Signal
from scripts.cost import (
    ASSUMED,
    PAGES,
    PRICED,
    READ_AT,
    SEEN,
    Load,
    Prices,
    a_job,
    an_archive,
    an_idle_job,
    markdown,
    standing,
)
from tests.infra.template import MONITORING, ROOT, load, of_type

PAGE = ROOT / "docs" / "reference" / "cost.md"
BEGIN, END = "<!-- of scripts/cost.py -->\n", "<!-- end -->\n"


def total(costs: dict[str, float]) -> float:
    return sum(costs.values())


def test_an_idle_job_costs_no_write_and_less_than_a_thousandth_of_a_dollar_a_month() -> None:
    idle = an_idle_job(Prices(), Load())
    assert total(idle) < 0.001
    assert an_idle_job(replace(Prices(), table_write_unit=1.0), Load()) == idle


def test_twice_the_entries_cost_more_and_free_services_nothing() -> None:
    twice = replace(Load(), entries_a_job=2 * Load().entries_a_job)
    assert total(a_job(Prices(), twice)) > total(a_job(Prices(), Load()))
    assert total(an_archive(Prices(), twice)) > total(an_archive(Prices(), Load()))
    free = Prices(*[0.0] * len(Prices.__dataclass_fields__))
    sums = (a_job(free, Load()), an_archive(free, Load()), standing(free, Load()))
    assert [total(one) for one in sums] == [0, 0, 0]


def test_every_price_is_spent_somewhere_and_every_assumption_changes_a_sum() -> None:
    def sums(price: Prices, assumed: Load) -> tuple[float, ...]:
        made = (a_job, an_idle_job, an_archive, standing)
        return tuple(total(one(price, assumed)) for one in made)

    usual = sums(Prices(), Load())
    for one in fields(Prices):
        dearer = replace(Prices(), **{one.name: 2 * getattr(Prices(), one.name)})
        assert sums(dearer, Load()) != usual, one.name
    for one in fields(Load):
        more = replace(Load(), **{one.name: 2 * getattr(Load(), one.name)})
        assert sums(Prices(), more) != usual, one.name


def test_every_price_and_assumption_is_shown_with_where_it_is_from() -> None:
    assert {name for _, _, name, _ in PRICED} == {one.name for one in fields(Prices)}
    assert {name for _, name in ASSUMED} == {one.name for one in fields(Load)}
    assert {page for _, page, _, _ in PRICED} == set(PAGES)
    assert set(READ_AT.values()) == set(SEEN)
    assert {one.name for one in fields(Prices)} - set(READ_AT) == {"backup_gb_month"}


def test_the_alarms_that_are_counted_are_those_of_the_template() -> None:
    assert Load().alarms == len(of_type(load(MONITORING), "AWS::CloudWatch::Alarm"))


def test_the_metrics_that_are_counted_are_those_that_always_come() -> None:
    """A filter with a default reports whenever anything is logged; and each tick counts itself."""
    counted = {
        one["MetricName"]
        for filtered in of_type(load(MONITORING), "AWS::Logs::MetricFilter").values()
        for one in filtered["MetricTransformations"]
        if "DefaultValue" in one
    }
    assert Load().metrics == len(counted | {Signal.TICK.metric})


def test_the_page_shows_what_the_script_computes(rewrite: bool) -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    shown, after = rest.split(END)
    wanted = markdown(Prices(), Load())
    if rewrite:
        PAGE.write_text(f"{before}{BEGIN}{wanted}{END}{after}")
    assert shown == wanted, "write it anew: pytest tests/infra/test_cost.py --rewrite"


def test_the_script_takes_other_prices_and_assumptions() -> None:
    command = [sys.executable, "scripts/cost.py", "--clusters", "9", "--alarm-month", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "alarms                   $21.0000" in done.stdout
