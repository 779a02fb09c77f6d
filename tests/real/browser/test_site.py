"""The documentation as a site: its pictures are shown, and nothing is asked of anybody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from tests.architecture.sources import ROOT

SITE = ROOT / "build/site"
PICTURED = ("states", "the-record", "protocol", "steps")
"""Pages of the explanation that have pictures, drawn from the code."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    assert (SITE / "index.html").exists(), "make docs builds it"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def pages() -> list[str]:
    """Every page of the site but the decisions and incidents, which are text alone."""
    found = (path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return sorted(one for one in found if not one.startswith(("adr/", "incidents/", "404")))


def test_no_page_asks_anything_of_anybody_else(site: str, browser: Browser) -> None:
    window = browser.new_page()
    asked: set[str] = set()
    wrong: list[str] = []
    window.on("request", lambda request: asked.add(str(urlsplit(request.url).netloc)))
    window.on("response", lambda got: wrong.append(got.url) if got.status >= 400 else None)
    window.on("pageerror", lambda error: wrong.append(str(error)))
    names = pages()
    assert len(names) > 100
    for name in names:
        window.goto(f"{site}/{name}", wait_until="load")
    window.close()
    assert asked - {"", urlsplit(site).netloc} == set()
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PICTURED)
def test_the_pictures_of_a_page_are_shown_within_its_width(
    name: str, scheme: str, site: str, browser: Browser, tmp_path: Path
) -> None:
    window = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    window.goto(f"{site}/explanation/{name}.html", wait_until="load")
    pictures = window.locator("article img[src$='.svg']")
    assert pictures.count() >= 1
    for i in range(pictures.count()):
        one = pictures.nth(i)
        assert one.get_attribute("alt")
        drawn, box = one.evaluate("image => image.naturalWidth"), one.bounding_box()
        assert drawn > 300
        assert box is not None
        assert box["width"] <= 1280
    window.close()
