"""The state folder: one stack at a time, and words that survive any death."""

import os
import stat
from pathlib import Path

import pytest

from dispatch.errors import BadConfiguration
from dispatch.settings import stack_url
from embedded.state import Position, StateFolder, StateInUse


def test_a_second_stack_on_the_same_folder_is_refused_and_told_of_the_first(
    tmp_path: Path,
) -> None:
    with StateFolder(tmp_path / "state") as first:
        first.listening("http://127.0.0.1:1")
        with pytest.raises(StateInUse) as refused:
            StateFolder(tmp_path / "state")
    said = str(refused.value)
    assert str(os.getpid()) in said
    assert "http://127.0.0.1:1" in said
    assert "--state" in said


def test_a_folder_that_was_let_go_can_be_had(tmp_path: Path) -> None:
    StateFolder(tmp_path).close()
    StateFolder(tmp_path).close()


def test_the_folder_is_its_owner_s_alone(tmp_path: Path) -> None:
    with StateFolder(tmp_path / "deep" / "state") as folder:
        assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_said_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadConfiguration, match="file"):
        StateFolder(tmp_path / "file" / "state")


def test_where_a_stack_listens_is_left_for_the_command_line(tmp_path: Path) -> None:
    assert stack_url(tmp_path) is None
    with StateFolder(tmp_path) as folder:
        folder.listening("http://127.0.0.1:8750")
    assert stack_url(tmp_path) == "http://127.0.0.1:8750"
    (tmp_path / "stack.json").write_text("{")
    assert stack_url(tmp_path) is None


def test_a_position_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "stream.json"
    Position(path).put({"a": "1", "b": "2"})
    Position(path).put({"a": "3"})
    again = Position(path)
    assert (again.get("a"), again.get("b"), again.get("c")) == ("3", "2", None)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_position_that_cannot_be_read_begins_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stream.json"
    path.write_text(text)
    assert Position(path).get("a") is None
