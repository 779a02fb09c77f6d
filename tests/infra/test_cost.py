"""The script that computes costs follows its numbers."""

from dataclasses import replace

from scripts.cost import Load, Prices, a_job, an_idle_job, standing
from tests.infra.template import MONITORING, load, of_type


def total(costs: dict[str, float]) -> float:
    return sum(costs.values())


def test_an_idle_job_costs_no_write_and_less_than_a_thousandth_of_a_dollar_a_month() -> None:
    idle = an_idle_job(Prices(), Load())
    assert total(idle) < 0.001
    assert an_idle_job(replace(Prices(), table_write_unit=1.0), Load()) == idle


def test_twice_the_entries_cost_more_and_free_services_nothing() -> None:
    twice = replace(Load(), entries_a_job=2 * Load().entries_a_job)
    assert total(a_job(Prices(), twice)) > total(a_job(Prices(), Load()))
    free = Prices(*[0.0] * len(Prices.__dataclass_fields__))
    assert total(a_job(free, Load())) == total(standing(free, Load())) == 0


def test_the_alarms_that_are_counted_are_those_of_the_template() -> None:
    assert Load().alarms == len(of_type(load(MONITORING), "AWS::CloudWatch::Alarm"))
