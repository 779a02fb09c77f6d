"""The seven control intents, and `tombstone`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from dispatch.api import ReceiptAnswer
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.exits import Code, code_of
from dispatch.cli.screen import Screen, screen
from dispatch.client import Client, new_key
from dispatch.core.parts import Effect
from dispatch.errors import DispatchError, TryLater, Unknown
from dispatch.record.names import IntentKind

_HELP: dict[IntentKind, str] = {
    IntentKind.CANCEL: "End jobs as cancelled, whatever any supervisor is doing.",
    IntentKind.HOLD: "Keep jobs from running until they are released.",
    IntentKind.RELEASE: "Lift a hold and let jobs run.",
    IntentKind.REQUEUE: "Run jobs again from the start.",
    IntentKind.RESUBMIT: "Stop what runs, then start jobs as a new submission.",
    IntentKind.GIVE_UP: "End jobs as failed, with the cause of the hold they wait in.",
}


def add(app: typer.Typer) -> None:
    """Add the intents and `tombstone`."""
    for kind, text in _HELP.items():
        app.command(kind.value.replace("_", "-"), help=text)(_verb(kind))
    app.command()(abandon)
    app.command()(tombstone)


def _verb(kind: IntentKind) -> Callable[..., None]:
    def ask(
        job: options.Jobs,
        *,
        reason: options.Reason = None,
        intent_id: options.IntentId = None,
        url: options.Url = None,
        json_: options.Json = False,
    ) -> None:
        shown = screen(machine=json_)
        with client(url) as to:
            _each(job, shown, lambda one: _intend(to, one, kind, shown, (intent_id, reason, None)))

    return ask


def abandon(
    job: options.Job,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An attempt (2.1) or an object's ref.")
    ],
    *,
    reason: options.Reason = None,
    intent_id: options.IntentId = None,
    url: options.Url = None,
    json_: options.Json = False,
) -> None:
    """Vouch for an attempt or an object: it blocks nothing any more, and isn't stopped again."""
    shown = screen(machine=json_)
    with client(url) as to:
        told = (intent_id, reason, target)
        _each([job], shown, lambda one: _intend(to, one, IntentKind.ABANDON, shown, told))


def tombstone(
    job: options.Jobs,
    *,
    url: options.Url = None,
    json_: options.Json = False,
) -> None:
    """Mark settled jobs' records for removal; their keys stay taken."""
    shown = screen(machine=json_)
    with client(url) as to:

        def bury(one: str) -> Code:
            to.tombstone(one)
            if json_:
                shown.json({"job_id": one, "tombstoned": True})
            else:
                shown.line(f"{one} is tombstoned; its record will be removed")
            return Code.OK

        _each(job, shown, bury)


def _each(jobs: list[str], shown: Screen, do: Callable[[str], Code]) -> None:
    """Do something to each job; the exit code is that of the first that went wrong."""
    worst = Code.OK
    for one in jobs:
        try:
            code = do(one)
        except DispatchError as error:
            if len(jobs) == 1:
                raise
            shown.problem(error)
            code = code_of(error)
        worst = worst or code
    if worst:
        raise typer.Exit(int(worst))


def _intend(
    to: Client,
    job: str,
    kind: IntentKind,
    shown: Screen,
    told: tuple[str | None, str | None, str | None],
) -> Code:
    intent_id, reason, target = told
    used = intent_id or new_key()
    try:
        receipt = to.intend(job, kind, intent_id=used, reason=reason, target=target)
    except (Unknown, TryLater) as error:
        shown.problem(error, then=f"send exactly the same with --id {used}: no effect twice")
        return code_of(error)
    if shown.machine:
        shown.json(receipt)
    else:
        shown.line(_said(receipt))
    if receipt.effect is None:
        return Code.UNKNOWN
    return Code.REFUSED if receipt.effect is Effect.NO_EFFECT else Code.OK


def _said(receipt: ReceiptAnswer) -> str:
    what = f"{receipt.kind.replace('_', ' ')} of {receipt.job_id}"
    note = f"; {receipt.note}" if receipt.note else ""
    outcome = f"; the outcome is {receipt.outcome}" if receipt.outcome else ""
    repeat = ", as it was before" if receipt.repeated else ""
    if note and receipt.outcome and str(receipt.outcome) in note:
        outcome = ""
    match receipt.effect:
        case Effect.APPLIED:
            said = "done"
        case Effect.ALREADY:
            said = "so it was already"
        case Effect.NO_EFFECT:
            said = "no effect"
        case _:
            said = "recorded"
    refusal = f" ({receipt.refusal})" if receipt.refusal else ""
    return f"{what}: {said}{note}{outcome}{refusal} (entry {receipt.entry}{repeat})"
