"""Signing in at an issuer: there and back, held to what was asked, renewed, ended, and left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.real.browser.conftest import Open, Window
from tests.real.browser.gateway import Gateway
from tests.real.browser.issuer import Issuer
from tests.real.browser.test_access import faults
from tests.real.browser.world import World


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    one = Issuer()
    yield one
    one.close()


@pytest.fixture
def gateway(world: World, issuer: Issuer) -> Iterator[Gateway]:
    one = Gateway(world.stack.state, issuer)
    yield one
    one.close()


@pytest.fixture
def window(opened: Open, gateway: Gateway, issuer: Issuer) -> Window:
    one = opened(origin=gateway.url)
    one.also = (issuer.url,)
    return one


@pytest.fixture(autouse=True)
def _refusals_are_told(window: Window) -> Iterator[None]:
    """A browser writes each answer above 399 into its console; those are what is tried here."""
    yield
    window.wrong[:] = [
        one for one in window.wrong if not any(s in one for s in ("401", "400", "503", "inline"))
    ]


def arrive(window: Window, place: str = "") -> Page:
    window.page.goto(f"{window.origin}/ui{place}")
    expect(window.page.get_by_role("heading", level=1)).to_have_text("Sign in")
    return window.page


def go(page: Page, answer: str = "I am Ada") -> None:
    page.get_by_role("button", name="Sign in at 127.0.0.1").click()
    page.get_by_role("button", name=answer).click()


def signed_in(window: Window, place: str = "") -> Page:
    page = arrive(window, place)
    go(page)
    expect(page.locator(".foot")).to_contain_text("#ada")
    return page


def kept(page: Page, name: str = "dispatch.sign-in") -> Any:
    return json.loads(page.evaluate(f"sessionStorage.getItem({name!r})"))


def test_a_person_signs_in_at_the_issuer_and_comes_back_to_where_they_were(
    window: Window, issuer: Issuer, world: World
) -> None:
    page = arrive(window, f"#/jobs/{world.jobs['finetune']}?scale=steps")
    assert faults(page) == []
    page.evaluate("window.violations.length = 0")
    go(page)
    expect(page.locator(".tl-svg")).to_be_visible()
    assert page.url == f"{window.origin}/ui#/jobs/{world.jobs['finetune']}?scale=steps"
    expect(page.locator(".foot")).to_contain_text(f"oidc:{issuer.url}#ada")
    assert issuer.refusals == []
    (asked,) = issuer.asked
    assert asked["scope"] == "openid offline_access"
    assert len({asked[name] for name in ("state", "nonce", "code_challenge")}) == 3
    assert issuer.redeemed == ["authorization_code"]
    assert page.evaluate("sessionStorage.getItem('dispatch.pending')") is None
    assert page.evaluate("Object.keys(localStorage).length") == 0
    assert page.evaluate("document.cookie") == ""


def test_each_sign_in_asks_with_words_of_its_own(window: Window, issuer: Issuer) -> None:
    page = signed_in(window)
    page.get_by_role("button", name="Sign out").click()
    go(page)
    expect(page.locator(".foot")).to_contain_text("#ada")
    for name in ("state", "nonce", "code_challenge"):
        assert len({one[name] for one in issuer.asked}) == 2


def test_the_policy_lets_the_page_ask_the_issuer_and_nobody_else(
    window: Window, gateway: Gateway, issuer: Issuer
) -> None:
    page = arrive(window)
    policy = gateway.answer("/ui", {})["headers"]["Content-Security-Policy"]
    assert f"connect-src 'self' {issuer.url};" in policy
    tried = "fetch('http://127.0.0.1:9/').then(() => 'asked', () => 'not asked')"
    assert page.evaluate(tried) == "not asked"
    assert len(page.evaluate("window.violations")) == 1
    page.evaluate("window.violations.length = 0")
    window.wrong[:] = [one for one in window.wrong if "Content Security Policy" not in one]
    window.wrong[:] = [one for one in window.wrong if "Fetch API cannot load" not in one]


@pytest.mark.parametrize(
    ("fault", "value", "said"),
    [
        ("state", "of-another-tab", "It doesn't answer what this tab asked"),
        ("nonce", "of-another-tab", "Its nonce isn't the one of this tab"),
        ("audience", "another-client", "meant for another client"),
    ],
)
def test_an_answer_that_this_tab_didn_t_ask_for_signs_nobody_in(
    window: Window, issuer: Issuer, fault: str, value: str, said: str
) -> None:
    setattr(issuer.faults, fault, value)
    page = arrive(window, "#/people")
    go(page)
    expect(page.locator(".note-bad")).to_contain_text(said)
    assert page.evaluate("sessionStorage.length") == 0
    assert "code=" not in page.url
    assert issuer.redeemed == ([] if fault == "state" else ["authorization_code"])


def test_an_answer_out_of_the_blue_isn_t_redeemed(window: Window, issuer: Issuer) -> None:
    page = arrive(window, "?code=stolen&state=made-up")
    expect(page.locator(".note-bad")).to_contain_text("Nothing of it was used")
    assert issuer.redeemed == []
    assert page.url == f"{window.origin}/ui"
    signed_in(window)
    page.goto(f"{window.origin}/ui?code=stolen&state=made-up#/clusters")
    expect(page.get_by_role("heading", level=1)).to_have_text("Clusters")
    expect(page.locator(".foot")).to_contain_text("#ada")
    assert issuer.redeemed == ["authorization_code"]


def test_whoever_says_no_there_is_told_so_here(window: Window) -> None:
    page = arrive(window)
    go(page, "Nobody")
    expect(page.locator(".note-bad")).to_contain_text("Ada said no")
    go(page)
    expect(page.locator(".foot")).to_contain_text("#ada")


def test_tokens_may_come_from_an_origin_that_the_deployment_names(
    window: Window, gateway: Gateway, issuer: Issuer
) -> None:
    issuer.faults.token_host = issuer.tokens_url
    gateway.variables["ConsoleTokenOrigin"] = issuer.tokens_url
    window.also = (issuer.url, issuer.tokens_url)
    signed_in(window)
    assert f"{issuer.tokens_url}/token" in window.asked
    assert f"{issuer.url}/token" not in window.asked


# --- renewed, and at an end -------------------------------------------------------------------


def test_a_token_that_is_about_to_end_is_renewed_before_it_does(
    window: Window, issuer: Issuer
) -> None:
    issuer.faults.expires_in = 20
    page = signed_in(window)
    window.wrong.clear()
    issuer.faults.expires_in = 600
    with page.expect_response("**/jobs?*"):
        page.get_by_role("link", name="Needs a person").click()
    window.shown()
    assert issuer.redeemed.count("refresh_token") >= 1
    assert issuer.refusals == []
    assert window.wrong == []


def test_a_token_that_ended_early_is_renewed_once_and_the_question_asked_again(
    window: Window, issuer: Issuer
) -> None:
    page = signed_in(window)
    issuer.expire()
    page.get_by_role("link", name="Clusters").click()
    expect(page.locator(".cards.clusters")).to_be_visible()
    assert issuer.redeemed == ["authorization_code", "refresh_token"]
    assert issuer.refusals == []


def test_a_sign_in_that_can_t_be_renewed_ends_and_leads_back_to_the_same_view(
    window: Window, issuer: Issuer
) -> None:
    issuer.faults.renews = False
    issuer.faults.expires_in = 2
    page = signed_in(window)
    page.wait_for_timeout(2500)
    page.goto(f"{window.origin}/ui#/clusters")
    expect(page.locator(".note-bad")).to_contain_text("Your sign-in has ended")
    assert page.evaluate("sessionStorage.length") == 0
    issuer.faults.expires_in = 600
    go(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Clusters")


def test_what_the_issuer_won_t_renew_any_more_is_asked_for_once(
    window: Window, issuer: Issuer
) -> None:
    page = signed_in(window)
    issuer.forget()
    page.get_by_role("link", name="Clusters").click()
    expect(page.get_by_role("button", name="Sign in at")).to_be_visible()
    expect(page.locator(".note-bad")).to_contain_text("no good token")
    assert issuer.redeemed.count("refresh_token") == 1


# --- leaving ----------------------------------------------------------------------------------


def test_signing_out_forgets_everything_here_and_offers_to_sign_out_there(
    window: Window, issuer: Issuer
) -> None:
    page = signed_in(window)
    renews, id_token = kept(page)["refresh"], kept(page)["id"]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Signed out")
    assert page.evaluate("sessionStorage.length") == 0
    expect(page.locator(".sign-in")).to_contain_text("hasn't")
    assert faults(page) == []
    page.evaluate("window.violations.length = 0")
    page.get_by_role("button", name="Sign out there, too").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert issuer.revoked == [renews]
    (left,) = issuer.left
    assert left["id_token_hint"] == id_token
    assert left["post_logout_redirect_uri"] == f"{window.origin}/ui"


# --- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "value", "said"),
    [
        ("named", "https://issuer.example", "look at JwtIssuer"),
        ("token_host", "https://tokens.example", "look at ConsoleTokenOrigin"),
        ("silent", True, "doesn't describe itself"),
    ],
)
def test_an_issuer_that_can_t_be_used_is_said_to_be_with_what_to_look_at(
    window: Window, issuer: Issuer, fault: str, value: Any, said: str
) -> None:
    setattr(issuer.faults, fault, value)
    page = arrive(window)
    page.get_by_role("button", name="Sign in at").click()
    expect(page.locator(".note-bad")).to_contain_text(said)
    expect(page.get_by_role("button", name="Sign in at")).to_be_enabled()
    assert issuer.asked == []


def test_a_token_of_one_s_own_still_opens_the_console(window: Window, issuer: Issuer) -> None:
    signed_in(window)
    own = kept_token(window.page)
    window.page.get_by_role("button", name="Sign out").click()
    window.page.get_by_text("Use a token instead").click()
    window.page.get_by_label("Access token").fill(own)
    window.page.get_by_role("button", name="Use this token").click()
    expect(window.page.locator("table.jobs")).to_be_visible()


def kept_token(page: Page) -> str:
    return str(page.evaluate("sessionStorage.getItem('dispatch.token')"))


def test_the_code_is_never_sent_to_the_api_twice_nor_kept_in_the_address(
    window: Window, issuer: Issuer
) -> None:
    page = signed_in(window)
    codes = [one for one in window.asked if one.startswith(window.origin) and "code=" in one]
    assert len(codes) == 1, "the redirect itself"
    assert set(parse_qs(urlsplit(codes[0]).query)) == {"code", "state", "iss", "session_state"}
    page.go_back()
    page.go_forward()
    expect(page.locator(".foot")).to_contain_text("#ada")
    assert issuer.redeemed == ["authorization_code"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_way_in_fits_a_phone(
    opened: Open, gateway: Gateway, issuer: Issuer, scheme: str
) -> None:
    window = opened(origin=gateway.url, width=375, height=700, color_scheme=scheme)
    page = arrive(window)
    page.get_by_text("Use a token instead").click()
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    assert faults(page) == []
    page.evaluate("window.violations.length = 0")
    window.wrong.clear()
