"""Files that people hand in; `-` is the standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from dispatch.errors import InvalidRequest


class FileRefused(InvalidRequest):
    """A file that can't be read or written here."""


class NoExport(InvalidRequest):
    """A file that was never an exported record."""


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
        raise FileRefused(f"{file}: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file}: it isn't UTF-8 text") from None


def export_of(file: str) -> str:
    """Return the text of an exported record.

    Raises:
        NoExport: Not even its first line is a mapping in JSON.
        InvalidRequest: It can't be read, or isn't UTF-8 text.
    """
    text = text_of(file)
    if not text.lstrip().startswith("{"):
        raise NoExport(f"{file}: it is no exported record, as those begin with {{")
    return text


def write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        InvalidRequest: It can't be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileRefused(f"{path}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return f"{text[:1].lower()}{text[1:]}"
