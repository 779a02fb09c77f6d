"""Each incident's record is what the simulator writes or a real cluster told, its answer `why`'s.

`pytest tests/docs/test_incidents.py --rewrite` writes them anew; read the difference then.
"""

from __future__ import annotations

import pytest

from scripts import incidents


@pytest.fixture(scope="module")
def wanted() -> dict[str, str]:
    return incidents.wanted()


def test_records_and_answers_are_as_they_would_be_written(
    wanted: dict[str, str], rewrite: bool
) -> None:
    if rewrite:
        incidents.main([])
    here = {path.name: path.read_text(encoding="utf-8") for path in incidents.FOLDER.iterdir()}
    assert here.keys() == wanted.keys()
    for name in sorted(wanted):
        assert here[name] == wanted[name], name


def test_there_are_twenty_and_each_answers_what_a_person_on_call_asks(
    wanted: dict[str, str],
) -> None:
    answers = {name: text for name, text in wanted.items() if name.endswith(".txt")}
    assert len(answers) >= 20
    for name, told in answers.items():
        readable = "Where reading stops" not in told
        questions = ["What was wanted", "Is it safe to run it again?", "What you can do"]
        questions += ["What ran", "Now", "May anything still run?"] if readable else []
        for question in questions:
            assert f"\n{question}\n" in told, (name, question)


def test_a_broken_record_names_the_entry_and_the_rule_and_fails(wanted: dict[str, str]) -> None:
    for name in ("entry-missing", "edited-by-hand", "newer-facts"):
        told = wanted[f"{name}.txt"]
        assert "Rule: " in told
        assert told.endswith("(exit code 1)\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("late-duplicate", "running, while an object beside its run is stopped"),
        ("late-duplicate", "It runs on node-1, since 00:01:43"),
        ("late-duplicate", "was last seen pending: not its run"),
        ("late-duplicate", "alone: it stops what runs, and starts again only"),
        ("cancel-undone", "Dispatch hadn't asked for it: the scheduler, or somebody there, did."),
        (
            "recreated-by-hand",
            "Dispatch sent that start once: who made another isn't in its record.",
        ),
        ("stopped-by-an-admin", "The scheduler named nobody."),
        ("accounting-knew", "its accounting knew."),
        ("clean", "Yes, as a new job: dispatch resubmit jajvlmoocdx4kvahfpcjx --anew."),
    ],
)
def test_what_a_reader_asked_and_wasn_t_told_is_told(
    wanted: dict[str, str], name: str, said: str
) -> None:
    assert said in " ".join(wanted[f"{name}.txt"].split())
