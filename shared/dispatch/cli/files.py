"""Files that people hand in; `-` is the standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from dispatch.errors import InvalidRequest


def is_file(source: str) -> bool:
    """Return whether an argument names a file, and not a job: a job's id has no dot or slash."""
    return source == "-" or "/" in source or "." in source


def text_of(file: str) -> str:
    """Return a file's text.

    Raises:
        InvalidRequest: It can't be read, or isn't UTF-8 text.
    """
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file}: it isn't UTF-8 text") from None


def write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        InvalidRequest: It can't be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror or error}") from None
