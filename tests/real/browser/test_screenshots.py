"""Pictures of the console: for the docs where SCREENSHOTS says so, else for the build."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.real.browser.conftest import Open
from tests.real.browser.world import World

PICTURES = {
    "console-jobs": ("jobs", 1120, "light"),
    "console-job": ("job", 1120, "light"),
    "console-person": ("person", 1120, "dark"),
    "console-clusters": ("clusters", 1120, "light"),
    "console-phone": ("job", 360, "dark"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_screenshots(opened: Open, world: World, name: str) -> None:
    what, width, scheme = PICTURES[name]
    place = {
        "jobs": "#/jobs?show=all&cluster=local&order=oldest",
        "job": f"#/jobs/{world.jobs['finetune']}",
        "person": f"#/jobs/{world.jobs['train-large']}",
        "clusters": "#/clusters",
    }[what]
    folder = Path(os.environ.get("SCREENSHOTS", "build/browser"))
    folder.mkdir(parents=True, exist_ok=True)
    window = opened(width=width, height=740, color_scheme=scheme)
    window.show(place)
    window.page.wait_for_timeout(200)
    picture = window.page.screenshot(path=folder / f"{name}.png", animations="disabled")
    assert len(picture) > 20_000, "a blank page"
