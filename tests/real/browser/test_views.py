"""What each view shows of a real stack, and how a person goes about in it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from dispatch.narrate.history import history
from dispatch.narrate.words import Reader
from tests.real.browser.conftest import Open, Window
from tests.real.browser.world import PARKED, PAYLOAD, World

NEVER = datetime(1970, 1, 1, tzinfo=UTC)

# --- jobs -------------------------------------------------------------------------------------


def test_the_open_jobs_stand_there_with_a_word_for_their_state(window: Window) -> None:
    window.show("")
    page = window.page
    for name, state in {
        "train-large": "held",
        "nightly-export": "held",
        "train-resnet": "running",
        "broken-record": "unreadable",
        "parked-00": "pending",
    }.items():
        row = page.locator(
            "table.jobs tbody tr", has=page.get_by_role("link", name=name, exact=True)
        )
        expect(row.locator(".badge")).to_have_text(state)
        expect(row.locator(".badge svg")).to_have_count(1)
    asks = page.locator("tr", has=page.get_by_role("link", name="train-large", exact=True))
    expect(asks.locator(".asks")).to_have_text("asks a person")
    assert "evaluate" not in window.names()


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("show=all&state=succeeded", {"evaluate", "finetune"}),
        ("show=all&state=failed", {"tokenise"}),
        ("show=all&state=cancelled", {"sweep-17"}),
        ("state=running", {"train-resnet"}),
        ("state=person", {"train-large", "nightly-export", "hostile", "wide"}),
        ("state=unreadable", {"broken-record"}),
        (
            "show=all&label=team%3Dvision",
            {"evaluate", "train-resnet", "sweep-17", "parked-07", "wide"},
        ),
        ("show=all&label=run", {"finetune"}),
        ("show=all&text=TRAIN-", {"train-large", "train-resnet"}),
        ("cluster=local&text=resnet", {"train-resnet"}),
        ("show=settled&cluster=local&label=team%3Dlanguage", {"tokenise", "finetune"}),
    ],
)
def test_a_filter_in_the_address_is_a_filter(window: Window, asked: str, found: set[str]) -> None:
    window.show(f"#/jobs?{asked}")
    assert set(window.names()) == found


def test_filters_are_given_by_hand_and_stand_in_the_address(window: Window) -> None:
    window.show("")
    page = window.page
    page.get_by_label("Label").fill("team=vision")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("table.jobs tbody tr")).to_have_count(3)
    page.get_by_label("State").select_option("running")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    assert window.names() == ["train-resnet"]
    assert "label=team%3Dvision" in window.hash()
    assert "state=running" in window.hash()
    expect(page.get_by_label("Label")).to_have_value("team=vision")
    page.reload()
    window.shown()
    assert window.names() == ["train-resnet"]
    page.go_back()
    expect(page.locator("table.jobs tbody tr")).to_have_count(3)


def test_a_label_is_a_way_to_the_jobs_that_have_it(window: Window) -> None:
    window.show("#/jobs")
    window.page.get_by_role("link", name="team=data").click()
    expect(window.page.locator("table.jobs tbody tr")).to_have_count(1)
    assert window.names() == ["nightly-export"]


def test_pages_show_every_job_once(window: Window, world: World) -> None:
    listed = world.client.jobs(settled=False, cluster="east", summary=True)
    wanted = [one.summary.name for one in listed if one.summary is not None][::-1]
    assert len(wanted) > PARKED
    window.show("#/jobs?cluster=east&order=newest")
    page = window.page
    first = window.names()
    assert first == wanted[:50]
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    assert window.names() == wanted[50:]
    assert "cursor=" in window.hash()
    page.get_by_role("link", name="First page").click()
    expect(page.get_by_role("link", name="Next page")).to_be_visible()
    assert window.names() == first


def test_filters_that_nothing_fits_say_how_to_be_rid_of_them(window: Window) -> None:
    window.show("#/jobs?text=nothing-is-called-so")
    assert "No job fits these filters" in window.text(".empty")
    window.page.get_by_role("link", name="Take the filters away").click()
    expect(window.page.locator("table.jobs")).to_be_visible()


# --- a job ------------------------------------------------------------------------------------


def test_a_job_is_told_in_the_words_of_the_command_line(window: Window, world: World) -> None:
    job = world.jobs["finetune"]
    window.show(f"#/jobs/{job}")
    page = window.page
    expect(page.get_by_role("heading", level=1)).to_have_text("finetune")
    expect(page.locator(".beside .badge")).to_have_text("succeeded")
    told = history(world.client.record(job), Reader(world.client.get(job).created_at or NEVER, UTC))
    assert page.locator(".entries .what").all_inner_texts() == [one.what for one in told.lines]
    story = window.text(".story")
    assert "run 1 of submission 1 was preempted; the plan says to resubmit (1 of 3 used)" in story
    assert f"dispatch export {job}" in window.text(".commands")


def test_the_picture_has_every_submission_run_and_entry(window: Window, world: World) -> None:
    window.show(f"#/jobs/{world.jobs['finetune']}")
    labels = window.page.locator(".tl-item").evaluate_all(
        "items => items.map((one) => one.getAttribute('aria-label'))"
    )
    lanes = {label.split(":")[0] for label in labels}
    assert {
        "The job",
        "Submission 1",
        "Submission 2",
        "Start 1.1",
        "Start 2.1",
        "Evidence",
    } <= lanes
    assert any("object 1.1: failed" in one and "was preempted" in one for one in labels)
    assert any("object 2.1: succeeded" in one for one in labels)
    record = world.client.record(world.jobs["finetune"])
    entries = {int(n) for one in labels for n in re.findall(r"(?:\. |: )(\d+): ", one)}
    assert set(range(1, record.revision + 1)) <= entries


def test_holds_and_people_stand_on_the_picture(window: Window, world: World) -> None:
    window.show(f"#/jobs/{world.jobs['nightly-export']}")
    lanes = window.page.locator(".tl-lane title").all_text_contents()
    assert "Held by people" in lanes
    assert "Asked by people" in lanes
    assert "the source is being migrated" in window.text(".story")


def test_pointing_at_the_picture_says_what_it_is(window: Window, world: World) -> None:
    window.show(f"#/jobs/{world.jobs['tokenise']}")
    page = window.page
    page.locator(".tl-item", has=page.locator(".tl-span.tl-failed")).last.hover()
    assert "exit code 3" in window.text(".tl-detail")
    page.get_by_role("heading", level=1).hover()
    assert "Point at something" in window.text(".tl-detail")


def test_every_step_can_be_given_room(window: Window, world: World) -> None:
    window.show(f"#/jobs/{world.jobs['finetune']}")
    page = window.page
    before = page.locator(".tl-many").count()
    page.get_by_role("link", name="Every step").click()
    window.shown()
    assert "scale=steps" in window.hash()
    expect(page.get_by_role("link", name="Every step")).to_have_attribute("aria-current", "true")
    assert page.locator(".tl-many").count() <= before


def test_what_a_job_wrote_is_read_when_asked_for(window: Window, world: World) -> None:
    window.show(f"#/jobs/{world.jobs['finetune']}")
    window.page.get_by_role("heading", name="What it wrote").click()
    expect(window.page.locator("pre.output")).to_contain_text("resumed from the checkpoint")


def test_a_job_that_asks_says_so_first_and_what_can_be_done(window: Window, world: World) -> None:
    job = world.jobs["train-large"]
    window.show(f"#/jobs/{job}")
    assert "It waits for a person" in window.text(".note-ask")
    first = window.page.locator(".commands code").first
    expect(first).to_have_text(f"dispatch resubmit {job}")


def test_an_option_of_a_command_stands_on_one_line_of_a_phone(opened: Open, world: World) -> None:
    window = opened(width=360)
    window.show(f"#/jobs/{world.jobs['finetune']}")
    code = window.page.locator(".commands code", has_text="--supersedes").first
    expect(code).to_have_text(f"dispatch submit FILE --supersedes {world.jobs['finetune']}")
    for word in code.locator(".word").all():
        box = word.bounding_box()
        assert box is not None
        assert box["height"] < 30, word.inner_text()


def test_a_record_that_can_t_be_read_is_shown_as_far_as_it_goes(
    window: Window, world: World
) -> None:
    window.show(f"#/jobs/{world.jobs['broken-record']}")
    assert "dispatch.fact.v9" in window.text(".note-bad")
    assert "What still works" in window.text(".story")
    expect(window.page.locator(".entry-refused")).to_have_count(1)
    expect(window.page.get_by_role("heading", level=1)).to_have_text("broken-record")


def test_times_are_told_by_the_clock_of_whoever_looks_or_in_utc(opened: Open, world: World) -> None:
    window = opened(timezone_id="Asia/Kolkata")
    window.show(f"#/jobs/{world.jobs['finetune']}")
    assert "times in UTC+05:30" in window.text(".story")
    assert "Time (UTC+05:30)" in window.text(".entries")
    window.page.get_by_role("button", name="UTC+05:30").click()
    window.shown()
    assert "times in UTC)" in window.text(".story")
    assert "Time (UTC)" in window.text(".entries")


# --- what needs a person, and the clusters ----------------------------------------------------


def test_what_waits_for_a_person_stands_there_with_what_can_be_done(
    window: Window, world: World
) -> None:
    window.show("#/people")
    page = window.page
    names = page.locator(".cards h3").all_inner_texts()
    assert {"train-large", "nightly-export", "hostile", "broken-record"} <= set(names)
    assert not {"train-resnet", "parked-00", "evaluate"} & set(names)
    card = page.locator(".card", has=page.get_by_role("link", name="train-large", exact=True))
    card.get_by_text("What you can do").click()
    command = f"dispatch give-up {world.jobs['train-large']} --reason WHY"
    expect(card.get_by_text(command, exact=True)).to_be_visible()


def test_what_people_were_told_is_shown_to_whoever_comes_later(
    window: Window, world: World
) -> None:
    window.show("#/people")
    page = window.page
    card = page.locator(".card", has=page.get_by_role("link", name="wide", exact=True))
    (told,) = world.client.get(world.jobs["wide"]).escalations
    expect(card.locator(".told")).to_contain_text(told.detail)
    expect(card.locator(".told code")).to_have_text(told.code)
    card.get_by_role("link", name="wide", exact=True).click()
    window.shown()
    assert "People were told" in window.page.locator(".tl-lane title").all_text_contents()
    assert told.detail in window.text(".entries")


def test_clusters_are_shown_with_their_last_look_health_and_brakes(window: Window) -> None:
    window.show("#/clusters")
    page = window.page

    def card(name: str) -> str:
        found = page.locator(".card", has=page.get_by_role("heading", name=name))
        return str(found.inner_text())

    assert "healthy" in card("local")
    assert "paused: maintenance until Monday" in card("east")
    assert re.search(r"looks fail|in trouble", card("hpc"))
    assert re.search(r"Last tick\s+(just now|\d+ s ago)", card("local"))
    page.get_by_role("link", name="Open jobs on east").click()
    expect(page.locator("table.jobs tbody tr").first).to_be_visible()
    assert "cluster=east" in window.hash()


# --- text that people gave --------------------------------------------------------------------


def test_what_people_wrote_stays_words(window: Window, world: World) -> None:
    job = world.jobs["hostile"]
    for place in ("#/jobs", f"#/jobs/{job}", "#/people", f"#/jobs?label={PAYLOAD[:60]}"):
        window.show(place)
        page = window.page
        assert page.evaluate("window.hit") is None
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1
    window.show("#/jobs")
    assert f"note={PAYLOAD}" in window.page.locator(".chip").all_inner_texts()
    window.show(f"#/jobs/{job}")
    assert PAYLOAD in window.text(".entries")
    window.page.get_by_role("heading", name="What it wrote").click()
    expect(window.page.locator("pre.output")).to_contain_text(PAYLOAD)
    assert window.page.evaluate("window.hit") is None
    strange = "#/jobs/%3Cimg%20src%3Dx%20onerror%3D%22window.hit%3D1%22%3E"
    window.page.goto(f"{window.origin}/ui{strange}")
    expect(window.page.locator(".note-bad")).to_be_visible()
    assert window.page.evaluate("window.hit") is None
