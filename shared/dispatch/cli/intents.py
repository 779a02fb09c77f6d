"""The seven control intents, of jobs named one by one or chosen by what they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from dispatch.api import ListedAnswer, ReceiptAnswer
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.exits import Code, code_of
from dispatch.cli.listing import rows_of, titles
from dispatch.cli.request import changes_of, pairs_of
from dispatch.cli.screen import Screen, screen
from dispatch.client import Choice, Client, intend_each, new_key, resubmit, select
from dispatch.client.again import again
from dispatch.core.parts import Effect
from dispatch.errors import DispatchError, NotSettled, TryLater, Unknown
from dispatch.record.codec import decode_header
from dispatch.record.names import IntentKind

_HELP: dict[IntentKind, str] = {
    IntentKind.CANCEL: "End jobs as cancelled, whatever any supervisor is doing.",
    IntentKind.HOLD: "Keep jobs from running until they are released.",
    IntentKind.RELEASE: "Lift a hold and let jobs run.",
    IntentKind.REQUEUE: "Run jobs again from the start.",
    IntentKind.GIVE_UP: "End jobs as failed, with the cause of the hold they wait in.",
}

_Preview = Annotated[
    bool, typer.Option("--preview", help="Show which jobs are meant, and send nothing.")
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before sending to all chosen.")]


def add(app: typer.Typer) -> None:
    """Add the intents and `tombstone`."""
    for kind, text in _HELP.items():
        app.command(kind.value.replace("_", "-"), help=text)(_verb(kind))
    app.command("resubmit")(show_resubmit)
    app.command()(abandon)
    app.command()(tombstone)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is sent, and how it is confirmed."""

    kind: IntentKind
    intent_id: str | None
    reason: str | None
    preview: bool
    yes: bool


def _verb(kind: IntentKind) -> Callable[..., None]:
    def ask(
        jobs: options.SomeJobs = None,
        *,
        reason: options.Reason = None,
        intent_id: options.IntentId = None,
        label: options.Labels = None,
        cluster: options.ThisCluster = None,
        state: options.States = None,
        owner: options.Owner = None,
        name: options.Name = None,
        preview: _Preview = False,
        yes: _Yes = False,
        url: options.Url = None,
        json_: options.Json = False,
    ) -> None:
        labels = dict(pairs_of("--label", label))
        choice = Choice(labels, cluster, frozenset(state or ()), owner, name)
        wish = _Wish(kind, intent_id, reason, preview, yes)
        _send(jobs or [], choice, wish, url, screen(machine=json_))

    return ask


def _send(jobs: list[str], choice: Choice, wish: _Wish, url: str | None, shown: Screen) -> None:
    if bool(jobs) == (not choice.empty):
        raise typer.BadParameter(
            "name jobs, or choose them by --label, --cluster, --state, --owner or --name; not both"
        )
    if jobs and wish.preview:
        raise typer.BadParameter("--preview is for jobs that are chosen by what they are")
    with client(url) as to:
        if jobs:
            told = (wish.intent_id, wish.reason, None)
            _each(jobs, shown, lambda one: _intend(to, one, wish.kind, shown, told))
        else:
            _chosen(to, choice, wish, shown)


def show_resubmit(
    jobs: options.SomeJobs = None,
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Change a field: a new job that supersedes the settled one.",
        ),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="A settled one as it was: as a new job, too.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option("--key", help="With --set or --anew: the new job's idempotency key."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="With --set or --anew: print the request and send nothing."),
    ] = False,
    allow_plain: options.AllowPlain = None,
    reason: options.Reason = None,
    intent_id: options.IntentId = None,
    label: options.Labels = None,
    cluster: options.ThisCluster = None,
    state: options.States = None,
    owner: options.Owner = None,
    name: options.Name = None,
    preview: _Preview = False,
    yes: _Yes = False,
    url: options.Url = None,
    json_: options.Json = False,
) -> None:
    """Stop what runs, then start jobs as a new submission; with --anew, a settled one again."""
    shown = screen(machine=json_)
    if set_ is None and not anew:
        if key is not None or dry_run or allow_plain:
            raise typer.BadParameter("--key, --dry-run and --allow-plain go with --set or --anew")
        labels = dict(pairs_of("--label", label))
        choice = Choice(labels, cluster, frozenset(state or ()), owner, name)
        wish = _Wish(IntentKind.RESUBMIT, intent_id, reason, preview, yes)
        _send(jobs or [], choice, wish, url, shown)
        return
    if jobs is None or len(jobs) != 1:
        raise typer.BadParameter("--set and --anew are for one job: name it")
    (job,) = jobs
    changes, plain = changes_of(set_), tuple(allow_plain or ())
    with client(url) as to:
        if dry_run:
            header = decode_header(to.record(job).header, job=job)
            request = again(header, changes, allow_plain=plain)
            shown.out.print_json(request.model_dump_json(exclude_none=True))
            return
        _anew(to, job, changes, (key, plain), shown)


def _anew(
    to: Client,
    job: str,
    changes: dict[str, str],
    told: tuple[str | None, tuple[str, ...]],
    shown: Screen,
) -> None:
    key, plain = told
    try:
        made = resubmit(to, job, changes, key=key, allow_plain=plain)
    except NotSettled as error:
        then = f"a spec never changes: dispatch cancel {job}, dispatch watch {job}, then this again"
        shown.problem(error, then=then)
        raise typer.Exit(int(Code.CONFLICT)) from None
    if shown.machine:
        shown.json(made)
        return
    verb = "submitted" if made.created else "there already"
    shown.line(f"{made.job_id} {verb}, generation {made.generation}, in place of {job}")
    shown.note(f"follow it with: dispatch watch {made.job_id}")


# --- many -----------------------------------------------------------------------------------


def _chosen(to: Client, choice: Choice, wish: _Wish, shown: Screen) -> None:
    """Show exactly the jobs that are meant, and send the intent to them once that is confirmed."""
    found = select(to, choice)
    verb = wish.kind.replace("_", " ")
    if not found:
        shown.note("no open job is like that; nothing was sent")
        return
    if wish.preview or not shown.machine:
        _show(found, shown)
    if wish.preview:
        shown.note(f"{verb} is meant for these {len(found)}; nothing was sent: --yes sends it")
        return
    if not wish.yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("--preview shows which jobs are meant, --yes sends it to them")
        typer.confirm(f"{verb} these {len(found)}?", abort=True, err=True)
    id_ = wish.intent_id or new_key()
    jobs = [one.job_id for one in found]
    worst, failed = Code.OK, 0
    for told in intend_each(to, jobs, wish.kind, id_=id_, reason=wish.reason):
        if told.error is not None:
            failed += 1
            shown.problem(told.error, about=told.job)
            worst = worst or code_of(told.error)
        elif told.receipt is not None:
            worst = worst or _receipt(told.receipt, shown)
    again_ = f"; send the very same again with --id {id_}: no effect twice" if failed else ""
    shown.note(f"{len(jobs) - failed} of {len(jobs)} were told{again_}")
    if worst:
        raise typer.Exit(int(worst))


def _show(found: Sequence[ListedAnswer], shown: Screen) -> None:
    if shown.machine:
        for one in found:
            shown.json(one)
    else:
        shown.table(titles(), rows_of(found, shown))


# --- one ------------------------------------------------------------------------------------


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
            shown.problem(error, about=one)
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
    return _receipt(receipt, shown)


def _receipt(receipt: ReceiptAnswer, shown: Screen) -> Code:
    """Write what an intent did, and return the exit code that stands for it."""
    if shown.machine:
        shown.json(receipt)
    else:
        shown.line(_said(receipt))
    if receipt.effect is None:
        shown.note(f"dispatch why {receipt.job_id} says where reading stops, and what still works")
        return Code.UNKNOWN
    if receipt.effect is Effect.NO_EFFECT:
        settled = receipt.kind is IntentKind.RESUBMIT and receipt.outcome is not None
        if settled:
            shown.note(f"dispatch resubmit {receipt.job_id} --anew runs it again, as a new job")
        shown.note(f"dispatch why {receipt.job_id} says what can be done instead")
        return Code.REFUSED
    return Code.OK


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
