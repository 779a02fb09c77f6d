"""Arrays: one file, one job for each element, and a repeat that makes none twice."""

from __future__ import annotations

import json

import httpx
import pytest

from dispatch import jobfile
from dispatch.jobfile import MAX_MEMBERS, JobFileRefused, Members
from tests.cli.conftest import Shell
from tests.client.network import Handlers, Scripted

SWEEP = """\
name: sweep
cluster: main
command: [python, train.py, --rate, "{{rate}}", --seed, "{{ seed }}"]
nodes: "{{nodes}}"
env: {RATE: "{{rate}}"}
labels: {sweep: rates}
array:
  parameters:
    rate: [0.1, 0.01]
    seed: [1, 2]
    nodes: [1]
"""


def members(text: str, **changes: str) -> Members:
    return jobfile.parse_all(text, name="sweep.yaml", changes=changes)


def refused(text: str) -> list[str]:
    with pytest.raises(JobFileRefused) as caught:
        members(text)
    return str(caught.value).splitlines()


def keys(found: Members) -> list[str | None]:
    return [one.key for one in found.jobs]


def test_every_combination_of_the_parameters_is_a_job_with_its_values_in_place() -> None:
    found = members(SWEEP)
    assert [one.file.name for one in found.jobs] == [
        *("sweep-0.1-1-1", "sweep-0.1-2-1", "sweep-0.01-1-1", "sweep-0.01-2-1"),
    ]
    last = found.jobs[-1]
    assert last.parameters == {"rate": 0.01, "seed": 2, "nodes": 1}
    assert last.file.command == ("python", "train.py", "--rate", "0.01", "--seed", "2")
    assert (last.file.nodes, last.file.env) == (1, {"RATE": "0.01"})
    assert last.file.array is None


def test_elements_may_be_written_out_and_a_placeholder_in_the_name_is_enough() -> None:
    text = "name: run-{{who}}\ncommand: [echo, '{{who}}']\n"
    found = members(text + "array: {elements: [{who: ada}, {who: 3}]}\n")
    assert [one.file.name for one in found.jobs] == ["run-ada", "run-3"]


def test_a_key_follows_from_what_the_element_is_and_not_from_its_place() -> None:
    before = keys(members(SWEEP))
    longer = keys(members(SWEEP.replace("seed: [1, 2]", "seed: [0, 1, 2]")))
    assert len(set(before)) == 4
    assert set(before) < set(longer)
    changed = keys(members(SWEEP.replace("train.py", "other.py")))
    assert not set(before) & set(changed)


def test_a_key_of_the_file_s_own_is_the_stem_of_its_jobs() -> None:
    found = members(SWEEP + "idempotency_key: march\n")
    assert all(key is not None and key.startswith("march.") for key in keys(found))
    changed = members(SWEEP.replace("train.py", "other.py") + "idempotency_key: march\n")
    assert keys(found) == keys(changed)


def test_a_name_that_grows_too_long_is_cut_and_stays_one_of_its_own() -> None:
    text = SWEEP.replace("rate: [0.1, 0.01]", f"rate: [{'a' * 80}, {'a' * 81}]")
    names = [one.file.name for one in members(text).jobs]
    assert len(set(names)) == 4
    assert max(len(name) for name in names) <= 63


def test_braces_that_are_no_parameter_s_stay_where_there_is_no_array() -> None:
    text = 'name: a\ncommand: [docker, ps, --format, "{{.Names}} {{x}}"]\n'
    assert jobfile.parse(text).command == ("docker", "ps", "--format", "{{.Names}} {{x}}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "{{ seed }}",
            "{{sed}}",
            "sweep.yaml:3: field 'command.5': {{sed}} is no parameter of the array; "
            "did you mean {{seed}}?",
        ),
        (
            "nodes: [1]",
            "nodes: [1, two]",
            "sweep.yaml:4: field 'nodes': a whole number is wanted, not \"two\" "
            "(with rate=0.1, seed=1, nodes=two)",
        ),
        (
            "seed: [1, 2]",
            "seed: [1, 1]",
            "sweep.yaml:7: field 'array': elements 1 and 2 are the same: rate=0.1, seed=1, "
            "nodes=1; leave one away",
        ),
        (
            "nodes: [1]",
            "nodes: [1]\n    idle: [1]",
            "sweep.yaml:12: field 'array.parameters.idle': nothing in the file uses it: write "
            "{{idle}} where it belongs",
        ),
        (
            "rate: [0.1, 0.01]",
            "rate: [{a: 1}]",
            "sweep.yaml:9: field 'array.parameters.rate.0': a text, a number, true or false is "
            "wanted",
        ),
        (
            "seed: [1, 2]",
            "seed: 3",
            "sweep.yaml:10: field 'array.parameters.seed': a list of values is wanted, as [1, 2]",
        ),
        (
            "parameters:",
            "params:",
            "sweep.yaml:8: field 'array.params': unknown field; did you mean 'parameters'?",
        ),
        ("name: sweep", "name: sweep\nsupersedes: jearlierjob00000001", "replaced by many"),
        ("env: {", "envv: {", "sweep.yaml:5: field 'envv': unknown field; did you mean 'env'?"),
    ],
)
def test_a_mistake_is_told_once_with_its_line(old: str, new: str, said: str) -> None:
    assert old in SWEEP
    (line,) = refused(SWEEP.replace(old, new))
    assert said in line


def test_an_array_that_is_too_long_or_uneven_is_refused() -> None:
    many = ", ".join(str(n) for n in range(MAX_MEMBERS))
    assert "more than 1,000 jobs" in refused(SWEEP.replace("seed: [1, 2]", f"seed: [{many}]"))[0]
    text = "name: a\ncommand: ['{{x}}']\narray: {elements: [{x: 1}, {y: 1}]}\n"
    assert "element 2 has y, the first has x" in refused(text)[0]
    both = "name: a\ncommand: ['{{x}}']\narray: {elements: [{x: 1}], parameters: {x: [1]}}\n"
    assert "give parameters or elements, not both" in refused(both)[0]


def test_where_one_job_is_wanted_an_array_is_refused() -> None:
    with pytest.raises(JobFileRefused, match="it makes several jobs"):
        jobfile.parse(SWEEP)


# --- submit -----------------------------------------------------------------------------------


def test_a_repeated_submit_makes_no_job_twice_and_a_new_value_only_the_new_ones(
    shell: Shell,
) -> None:
    file = shell.file("sweep.yaml", SWEEP)
    first = shell("submit", file)
    assert (first.exit_code, first.stderr.strip()) == (0, "4 submitted, 0 there already")
    again = shell("submit", file)
    assert again.stderr.strip() == "0 submitted, 4 there already"
    more = shell("submit", file, "--set", "array.parameters.seed=[1, 2, 3]")
    assert more.stderr.strip() == "2 submitted, 4 there already"
    assert len(shell.world.store.list().items) == 6


def test_a_submit_of_an_array_tells_machines_which_job_is_which(shell: Shell) -> None:
    done = shell("submit", shell.file("sweep.yaml", SWEEP), "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["parameters"]["seed"] for one in lines] == [1, 2, 1, 2]
    assert len({one["job_id"] for one in lines}) == 4


def test_a_dry_run_of_an_array_prints_each_request_and_sends_none(shell: Shell) -> None:
    done = shell("submit", shell.file("sweep.yaml", SWEEP), "--dry-run")
    requests = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["spec"]["name"] for one in requests][-1] == "sweep-0.01-2-1"
    assert list(shell.world.store.list().items) == []


def test_a_member_that_fails_stops_no_other_and_the_same_again_completes_it(shell: Shell) -> None:
    file = shell.file("sweep.yaml", SWEEP)
    lost: list[httpx.Response | Exception | None] = [None] * 2
    lost += [httpx.ConnectError("refused")] * 4
    shell.network = lambda: Scripted([*lost, *[None] * 9], Handlers(shell.world))
    done = shell("submit", file)
    assert done.exit_code == 5
    assert "error: sweep-0.01-1-1: " in done.stderr
    assert "next: submit the same file again" in done.stderr
    assert "3 submitted, 0 there already; 1 failed" in done.stderr
    shell.network = lambda: Handlers(shell.world)
    assert "1 submitted, 3 there already" in shell("submit", file).stderr
