"""What people and machines are shown: tables on a terminal, JSON when asked for."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum
from typing import Any, TextIO

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatch.cli.exits import code_of, next_of
from dispatch.errors import DispatchError, RecordRefused
from dispatch.narrate.words import Reader
from dispatch.record.model import instant_text

_WIDTH_OF_A_PIPE = 4096
_COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "held": "yellow",
    "running": "cyan",
}


class LocalZone(tzinfo):
    """The machine's own zone, with the offset of each time's own day."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Return the offset at a local time."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:
        """Return nothing: the offset is whole."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Return the zone's short name at a local time."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """Return a UTC time in this zone."""
        return dt.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a command writes.

    Attributes:
        out: Answers.
        err: Everything else.
        reader: Whom times are told to.
        machine: Whether answers are JSON.
    """

    out: Console
    err: Console
    reader: Reader
    machine: bool

    def line(self, text: str, *, style: str = "") -> None:
        """Write one line of an answer."""
        self.out.print(Text(text, style=style), soft_wrap=True)

    def note(self, text: str) -> None:
        """Write one line beside the answer."""
        self.err.print(Text(text), soft_wrap=True)

    def json(self, value: object) -> None:
        """Write an answer for machines, one document a line."""
        self.out.file.write(json.dumps(plain(value), ensure_ascii=False) + "\n")

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table; the last column takes what is left of the width."""
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for title in titles[:-1]:
            table.add_column(title, overflow="fold", no_wrap=len(titles) > 5 and title != "WHAT")
        table.add_column(titles[-1], overflow="fold")
        for row in rows:
            table.add_row(*(coloured(cell) for cell in row))
        self._print(table)

    def pairs(self, values: Mapping[str, str | None]) -> None:
        """Write names and values, one a line; those without a value are left out."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in values.items():
            if value:
                table.add_row(name, coloured(value))
        self._print(table)

    def _print(self, table: Table) -> None:
        """Write a table; into a pipe without the spaces that fill its last column."""
        if self.out.is_terminal:
            self.out.print(table)
            return
        with self.out.capture() as held:
            self.out.print(table)
        for line in held.get().splitlines():
            self.out.file.write(line.rstrip() + "\n")

    def problem(self, error: DispatchError, *, then: str | None = None) -> None:
        """Write what went wrong, and what to do next."""
        if self.machine:
            self.err.file.write(json.dumps(problem_data(error), ensure_ascii=False) + "\n")
            return
        self.err.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        said = then or next_of(error)
        if said:
            self.err.print(Text.assemble(("  next: ", "bold"), said), soft_wrap=True)


def coloured(text: str) -> Text:
    """Return a cell, coloured by the state it begins with."""
    return Text(text, style=_COLOURS.get(text.split(" ", maxsplit=1)[0], ""))


def screen(
    *, machine: bool = False, utc: bool = False, pipe_width: int = _WIDTH_OF_A_PIPE
) -> Screen:
    """Return where a command writes; NO_COLOR and a pipe switch colours off.

    Args:
        machine: Whether answers are JSON.
        utc: Whether times are shown in UTC.
        pipe_width: Columns of what isn't a terminal.
    """
    reader = Reader(datetime.now(UTC), UTC if utc else LocalZone())
    return Screen(
        _console(sys.stdout, pipe_width), _console(sys.stderr, pipe_width), reader, machine
    )


def _console(file: TextIO, pipe_width: int) -> Console:
    piped = not file.isatty() and "COLUMNS" not in os.environ
    return Console(file=file, width=pipe_width if piped else None, highlight=False)


def problem_data(error: DispatchError) -> dict[str, Any]:
    """Return an error as machines read it."""
    data: dict[str, Any] = {
        "error": error.code,
        "detail": str(error),
        "exit_code": int(code_of(error)),
        "job": error.job,
        "field": getattr(error, "field", None),
        "next": next_of(error),
    }
    if isinstance(error, RecordRefused):
        data |= {"entry": error.entry, "rule": error.rule}
    return {name: value for name, value in data.items() if value is not None}


def plain(value: object) -> Any:
    """Return a value as JSON data: models, dataclasses, enums, times and collections of them."""
    match value:
        case BaseModel():
            return value.model_dump(mode="json", exclude_none=True, by_alias=True)
        case Enum():
            return value.value
        case datetime():
            return instant_text(value.astimezone(UTC))
        case date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [plain(one) for one in value]
        case set() | frozenset():
            return sorted(plain(one) for one in value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
        case _:
            return str(value)
