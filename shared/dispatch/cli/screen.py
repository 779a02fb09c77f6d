"""What people and machines are shown: tables on a terminal, JSON when asked for."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum, StrEnum
from typing import Any, TextIO

from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dispatch.cli.exits import code_of, next_of
from dispatch.cli.fitting import fitted
from dispatch.errors import DispatchError, RecordRefused
from dispatch.narrate.pages import error_page
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
        self._print(self.grid(titles, rows))

    def grid(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
        """Return a table that fits the terminal; the last column takes what is left."""
        return grid(*fitted(titles, rows, self.out.width))

    def pairs(self, values: Mapping[str, str | None]) -> None:
        """Write names and values, one a line; those without a value are left out."""
        self._print(pairs(values))

    def _print(self, table: Table) -> None:
        """Write a table; into a pipe without the spaces that fill its last column."""
        if self.out.is_terminal:
            self.out.print(table)
            return
        with self.out.capture() as held:
            self.out.print(table)
        for line in held.get().splitlines():
            self.out.file.write(line.rstrip() + "\n")

    def problem(
        self, error: DispatchError, *, then: str | None = None, about: str | None = None
    ) -> None:
        """Write what went wrong, with what, and what to do next."""
        said = then or next_of(error)
        if self.machine:
            data = problem_data(error)
            data |= {"next": said} if said else {}
            data |= {} if about is None else {"about": about}
            self.err.file.write(json.dumps(data, ensure_ascii=False) + "\n")
            return
        what = str(error) if about is None or about in str(error) else f"{about}: {error}"
        self.err.print(Text.assemble(("error: ", "bold red"), what), soft_wrap=True)
        if said:
            self.err.print(Text.assemble(("  next: ", "bold"), said), soft_wrap=True)
        self.err.print(Text.assemble(("  more: ", "bold"), error_page(error.code)), soft_wrap=True)


def grid(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table; the last column takes what is left of the width."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for title in titles[:-1]:
        table.add_column(title, overflow="fold", no_wrap=len(titles) > 5 and title != "WHAT")
    table.add_column(titles[-1], overflow="fold")
    for row in rows:
        table.add_row(*(coloured(cell) for cell in row))
    return table


def pairs(values: Mapping[str, str | None]) -> Table:
    """Return names and values, one a line; those without a value are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        if value:
            table.add_row(name, coloured(value))
    return table


@contextmanager
def in_place(shown: Screen) -> Iterator[Callable[[RenderableType], None]]:
    """Yield what draws over what it drew before; the last drawing stays. For terminals only."""
    with Live(console=shown.out, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda drawn: live.update(drawn, refresh=True)


def coloured(text: str) -> Text:
    """Return a cell, coloured by the state it begins with."""
    return Text(text, style=_COLOURS.get(text.split(" ", maxsplit=1)[0], ""))


class Colour(StrEnum):
    """When an answer has colours."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


COLOUR: ContextVar[Colour] = ContextVar("COLOUR", default=Colour.AUTO)
"""What `--color` said, for the command that runs."""


def screen(
    *,
    machine: bool = False,
    utc: bool = False,
    pipe_width: int = _WIDTH_OF_A_PIPE,
    now: datetime | None = None,
) -> Screen:
    """Return where a command writes; NO_COLOR, a pipe and `--color never` switch colours off.

    Args:
        machine: Whether answers are JSON.
        utc: Whether times are shown in UTC.
        pipe_width: Columns of what isn't a terminal.
        now: Instead of the present time.
    """
    reader = Reader(now or datetime.now(UTC), UTC if utc else LocalZone())
    return Screen(
        _console(sys.stdout, pipe_width), _console(sys.stderr, pipe_width), reader, machine
    )


_MARKS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
"""A sign for each character that would command a terminal, or turn the direction of a text."""


class Shown(Console):
    """A console on which what people and schedulers wrote is shown and never obeyed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the segments, control characters in their texts being replaced by signs."""
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else segment._replace(text=segment.text.translate(_MARKS))
            )


def _console(file: TextIO, pipe_width: int) -> Console:
    piped = not file.isatty() and "COLUMNS" not in os.environ
    width = pipe_width if piped else None
    match COLOUR.get():
        case Colour.ALWAYS:
            return Shown(
                file=file, width=width, highlight=False, force_terminal=True, no_color=False
            )
        case Colour.NEVER:
            return Shown(file=file, width=width, highlight=False, color_system=None)
        case Colour.AUTO:
            return Shown(file=file, width=width, highlight=False)


def problem_data(error: DispatchError) -> dict[str, Any]:
    """Return an error as machines read it."""
    data: dict[str, Any] = {
        "error": error.code,
        "detail": str(error),
        "exit_code": int(code_of(error)),
        "job": error.job,
        "field": getattr(error, "field", None),
        "next": next_of(error),
        "page": error_page(error.code),
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
        case tuple() if (named := getattr(value, "_asdict", None)) is not None:
            return plain(named())
        case list() | tuple():
            return [plain(one) for one in value]
        case set() | frozenset():
            return sorted(plain(one) for one in value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
        case _:
            return str(value)
