"""For everybody: by keyboard, by screen reader, in the dark, on a phone, and signed in or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.real.browser.conftest import LocalConsole, Open, Window
from tests.real.browser.world import World

RULES = {
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }
}


def places(world: World) -> dict[str, str]:
    return {
        "jobs": "#/jobs?show=all",
        "nothing": "#/jobs?text=nothing-is-called-so",
        "succeeded": f"#/jobs/{world.jobs['finetune']}",
        "asks": f"#/jobs/{world.jobs['train-large']}?scale=steps",
        "unreadable": f"#/jobs/{world.jobs['broken-record']}",
        "people": "#/people",
        "clusters": "#/clusters",
    }


def faults(page: Page) -> list[str]:
    """What axe finds, a line for each element."""
    found = Axe().run(page, options=RULES).response
    assert len(found["passes"]) > 10, "axe didn't look"
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_axe_finds_nothing_in_any_view(opened: Open, world: World, scheme: str, width: int) -> None:
    window = opened(color_scheme=scheme, width=width)
    for name, place in places(world).items():
        window.show(place)
        for summary in window.page.locator("main details:not([open]) > summary").all():
            if summary.is_visible():
                summary.click()
        window.page.wait_for_timeout(100)
        window.no_violations()
        assert faults(window.page) == [], name
        # axe puts a style of its own into the page, which the page's policy refuses and reports.
        window.page.evaluate("window.violations.length = 0")
        window.wrong[:] = [one for one in window.wrong if "Applying inline style" not in one]


CONTRASTS = """
() => [...document.querySelectorAll(".tl-item")].flatMap((item) => {
  const label = item.querySelector(".tl-label"), box = item.querySelector(".tl-span");
  if (!label || getComputedStyle(label).display === "none") return [];
  const light = (element) => {
    const [r, g, b] = getComputedStyle(element).fill.match(/\\d+/g).map((one) => {
      const c = one / 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [light(label), light(box)].sort((a, b) => a - b);
  return [[box.getAttribute("class"), (high + 0.05) / (low + 0.05)]];
})
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_words_in_the_picture_can_be_read(opened: Open, world: World, scheme: str) -> None:
    window = opened(color_scheme=scheme)
    met: set[str] = set()
    for name in ("finetune", "train-large", "nightly-export", "sweep-17", "tokenise"):
        window.show(f"#/jobs/{world.jobs[name]}?scale=steps")
        for box, contrast in window.page.evaluate(CONTRASTS):
            met.add(box)
            assert contrast >= 4.5, (name, box, contrast)
    assert len(met) >= 5, met


def test_the_dark_is_dark_and_the_light_light(opened: Open) -> None:
    def brightness(scheme: str) -> int:
        window = opened(color_scheme=scheme)
        window.show("")
        told: str = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(one) for one in told.removeprefix("rgb(").rstrip(")").split(","))

    assert brightness("light") > 600
    assert brightness("dark") < 150


def test_nothing_moves_for_those_who_want_it_so(opened: Open) -> None:
    moving = "[...document.querySelectorAll('.bar')].map((b) => getComputedStyle(b).animationName)"
    for wish, wanted in (("no-preference", "breathe"), ("reduce", "none")):
        window = opened(reduced_motion=wish)
        window.page.route("**/jobs?*", lambda route: None)
        window.page.goto(f"{window.origin}/ui")
        window.page.wait_for_selector(".bar")
        assert set(window.page.evaluate(moving)) == {wanted}


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_no_view_is_wider_than_the_window(opened: Open, world: World, width: int) -> None:
    window = opened(width=width, height=740)
    for name, place in places(world).items():
        window.show(place)
        widths = window.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], name
        for link in window.page.locator(".nav a").all():
            box = link.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
            assert box["height"] >= 24


# --- the keyboard -----------------------------------------------------------------------------


def focused(page: Page) -> str:
    told: str = page.evaluate(
        "(document.activeElement.innerText || document.activeElement.getAttribute('aria-label') "
        "|| document.activeElement.id || document.activeElement.tagName).trim()"
    )
    return told


def test_the_keyboard_goes_everywhere_and_shows_where_it_is(window: Window) -> None:
    window.show("")
    page = window.page
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.evaluate("document.activeElement.blur()")
    page.reload()
    window.shown()
    met: list[str] = []
    for _ in range(24):
        page.keyboard.press("Tab")
        met.append(focused(page))
        width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert width >= 2 or met[-1] == "Skip to the content", met[-1]
    for name in ("Jobs", "Needs a person", "Clusters", "Pause", "Open", "Filter", "f-text"):
        assert name in met, met
    assert any(one == "train-large" for one in met), met


def test_a_view_is_opened_by_the_keyboard_and_its_title_is_read(window: Window) -> None:
    window.show("")
    page = window.page
    page.get_by_role("link", name="Clusters").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_have_text("Clusters")
    window.shown()
    assert page.title() == "Clusters · Dispatch"
    expect(page.get_by_role("link", name="Clusters", exact=True)).to_have_attribute(
        "aria-current", "page"
    )


def test_the_arrow_keys_walk_along_the_picture(window: Window, world: World) -> None:
    window.show(f"#/jobs/{world.jobs['finetune']}")
    page = window.page
    page.get_by_role("link", name="Every step").focus()
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert first.startswith("The job: pending")
    assert "pending" in window.text(".tl-detail")
    met = {first}
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        met.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert len(met) == page.locator(".tl-item").count()
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == first
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") != first
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.tl')") is None
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.closest('.tl') !== null")


# --- asking again -----------------------------------------------------------------------------


def asked(window: Window) -> int:
    return sum("/jobs?" in one for one in window.asked)


def test_the_page_asks_again_by_itself_until_it_is_paused(window: Window) -> None:
    window.page.clock.install()
    window.show("")
    page = window.page
    before = asked(window)
    with page.expect_response("**/jobs?*"):
        page.clock.run_for(11_000)
    assert asked(window) > before
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".updated")).to_contain_text("Paused")
    expect(page.locator("#said")).to_have_text("Refreshing is paused")
    paused = asked(window)
    page.clock.run_for(60_000)
    page.wait_for_timeout(200)
    assert asked(window) == paused
    with page.expect_response("**/jobs?*"):
        page.get_by_role("button", name="Resume").click()
    expect(page.locator(".updated")).to_contain_text("Live")


def test_a_settled_job_is_asked_about_once(window: Window, world: World) -> None:
    window.page.clock.install()
    window.show(f"#/jobs/{world.jobs['finetune']}")
    expect(window.page.locator(".updated")).to_contain_text("Nothing more will come")
    before = len(window.asked)
    window.page.clock.run_for(60_000)
    window.page.wait_for_timeout(200)
    assert len(window.asked) == before


def test_a_refresh_brings_news_and_leaves_focus_where_it_is(window: Window, world: World) -> None:
    window.page.clock.install()
    window.show("#/jobs?text=late&order=newest")
    page = window.page
    expect(page.locator(".empty")).to_be_visible()
    world.submit("parked-late", "true", cluster="east")
    page.get_by_label("Owner").fill("ad")
    page.clock.run_for(11_000)
    expect(page.locator("table.jobs")).to_be_visible()
    assert window.names() == ["parked-late"]
    expect(page.get_by_label("Owner")).to_be_focused()
    expect(page.get_by_label("Owner")).to_have_value("ad")
    expect(page.locator("#said")).to_have_text("1 job of 67 looked at".replace("67", _looked(page)))
    row = page.get_by_role("link", name="parked-late")
    row.focus()
    world.submit("parked-later", "true", cluster="east")
    page.clock.run_for(11_000)
    expect(page.locator("table.jobs tbody tr")).to_have_count(2)
    expect(page.get_by_role("link", name="parked-late", exact=True)).to_be_focused()


def _looked(page: Page) -> str:
    return str(page.locator(".pager .quiet").inner_text()).split(" of ")[1].split(" ")[0]


# --- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, '{"code":"store_unavailable","detail":"the table is slow"}', "The API is busy"),
        (429, '{"message":"Too Many Requests"}', "The API is busy"),
        (500, '{"code":"error","detail":"it was logged"}', "Something failed at the API"),
        (403, '{"code":"forbidden","detail":"eve may not list jobs"}', "You may not see this"),
        (200, "<html>another service</html>", "The API refused the question"),
    ],
)
def test_an_answer_that_is_none_says_what_it_means_and_what_to_do(
    window: Window, status: int, body: str, said: str
) -> None:
    page = window.page
    page.route("**/jobs?*", lambda route: route.fulfill(status=status, body=body))
    page.goto(f"{window.origin}/ui")
    expect(page.locator(".note-bad .note-title")).to_have_text(said)
    page.unroute("**/jobs?*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("table.jobs")).to_be_visible()
    window.wrong[:] = [one for one in window.wrong if str(status) not in one]


def test_an_api_that_is_gone_is_said_to_be_and_asked_again(window: Window) -> None:
    page = window.page
    page.clock.install()
    page.route("**/whoami", lambda route: route.abort())
    page.goto(f"{window.origin}/ui")
    expect(page.locator(".note-bad .note-title")).to_have_text("No answer from the API")
    assert "dispatch up" in window.text(".note-bad")
    page.unroute("**/whoami")
    page.clock.run_for(11_000)
    expect(page.locator("table.jobs")).to_be_visible()
    window.wrong[:] = [one for one in window.wrong if "ERR_FAILED" not in one]


def test_what_was_known_stays_while_the_api_is_gone(window: Window) -> None:
    page = window.page
    page.clock.install()
    window.show("")
    before = window.names()
    page.route("**/jobs?*", lambda route: route.abort())
    page.clock.run_for(11_000)
    expect(page.locator(".notice .note-title")).to_have_text("No answer from the API")
    expect(page.locator(".notice")).to_contain_text("Below is what was known at")
    assert window.names() == before
    page.unroute("**/jobs?*")
    page.clock.run_for(11_000)
    expect(page.locator(".notice")).to_be_empty()
    window.wrong[:] = [one for one in window.wrong if "ERR_FAILED" not in one]


def test_a_job_that_isn_t_there_leads_back_to_the_list(window: Window) -> None:
    window.show("#/jobs/jaaaaaaaa")
    assert "There is no such job" in window.text(".note-bad")
    window.page.get_by_role("link", name="← Jobs").click()
    expect(window.page.locator("table.jobs")).to_be_visible()
    window.wrong[:] = [one for one in window.wrong if "404" not in one]


# --- who is asking ----------------------------------------------------------------------------


def test_the_address_of_dispatch_ui_shows_the_jobs_and_is_cleared_of_its_secret(
    opened: Open, console: LocalConsole, world: World
) -> None:
    window = opened(origin=console.origin)
    window.page.goto(console.address)
    window.shown()
    assert "train-resnet" in window.names()
    assert console.secret not in window.page.url
    assert not any(console.secret in one for one in window.asked)
    assert window.page.evaluate("Object.keys(localStorage).length") == 0
    assert window.page.evaluate("document.cookie") == ""
    window.show(f"#/jobs/{world.jobs['finetune']}")
    expect(window.page.locator(".tl-svg")).to_be_visible()
    window.show("#/people")
    window.show("#/clusters")


def test_without_a_token_a_person_is_asked_for_one_and_told_what_is_kept(
    opened: Open, console: LocalConsole
) -> None:
    window = opened(origin=console.origin)
    page = window.page
    page.goto(f"{console.origin}/ui")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert "session storage" in window.text(".sign-in")
    assert "dispatch ui" in page.locator(".sign-in").inner_text() or page.get_by_text("No token?")
    assert faults(page) == []
    window.page.evaluate("window.violations.length = 0")
    page.get_by_label("Access token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.locator(".note-bad")).to_contain_text("The token was refused")
    assert page.evaluate("sessionStorage.length") == 0
    page.get_by_label("Access token").fill(f"Bearer {console.secret}")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("table.jobs")).to_be_visible()
    page.reload()
    expect(page.locator("table.jobs")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert page.evaluate("sessionStorage.length") == 0
    window.wrong[:] = [
        one for one in window.wrong if "401" not in one and "inline style" not in one
    ]


def test_a_secret_in_the_address_is_taken_on_this_machine_only(window: Window) -> None:
    window.page.route(
        "http://console.example/**",
        lambda route: route.fulfill(
            response=route.fetch(
                url=route.request.url.replace("http://console.example", window.origin)
            )
        ),
    )
    window.page.goto("http://console.example/ui#secret=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
    window.shown()
    assert window.page.evaluate("sessionStorage.length") == 0
    window.asked.clear()
    window.wrong[:] = [one for one in window.wrong if "Cross-Origin-Opener-Policy" not in one]


def test_the_pictures_of_the_docs_are_small(world: World) -> None:
    pictures = sorted(Path("docs/images").glob("console-*.png"))
    assert len(pictures) >= 4
    assert all(one.stat().st_size < 200_000 for one in pictures)
