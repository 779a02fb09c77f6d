"""A queue in this process that plays SQS: at least once, redelivery, dead letters.

It forgets everything when the process dies, which costs nothing: every tick queues all work anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Condition
from typing import Any

from dispatch.messages import Work, work_text

MAX_RECEIVES = 5
"""How often a message is delivered before it becomes a dead letter."""

AGAIN_AFTER_S = 1.0
"""How long a message that failed stays away, seconds."""

MAX_BATCH = 100


@dataclass(slots=True)
class Message:
    """One message.

    Attributes:
        id: Unique in this process.
        group: Messages of one group are delivered together, to one worker at a time.
        body: Its text.
        received: How often it was delivered.
        not_before: When it may be delivered, on the monotonic clock.
    """

    id: str
    group: str
    body: str
    received: int = 0
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class Batch:
    """What one worker got; it must be handed back with `done`."""

    group: str
    messages: tuple[Message, ...]

    def event(self) -> dict[str, Any]:
        """Return the batch as Lambda would be given it."""
        return {
            "Records": [
                {
                    "messageId": one.id,
                    "receiptHandle": one.id,
                    "body": one.body,
                    "attributes": {"ApproximateReceiveCount": str(one.received)},
                    "messageAttributes": {},
                    "eventSource": "aws:sqs",
                    "eventSourceARN": "arn:local:sqs:work",
                }
                for one in self.messages
            ]
        }


@dataclass(slots=True)
class _Waiting:
    messages: list[Message] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    dead: list[Message] = field(default_factory=list)
    closed: bool = False


class LocalQueue:
    """Keeps messages until a worker is done with them.

    Args:
        monotonic: Measures spans, seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._state = _Waiting()
        self._changed = Condition()
        self._ids: Iterator[int] = count(1)

    def send(self, messages: Sequence[Work]) -> None:
        """Hand over messages; one that waits already, word for word, isn't added (`WorkQueue`)."""
        with self._changed:
            waiting = {one.body for one in self._state.messages}
            for work in messages:
                body = work_text(work)
                if body in waiting:
                    continue
                waiting.add(body)
                self._state.messages.append(
                    Message(f"m{next(self._ids)}", f"{work.cluster}/{work.shard}", body)
                )
            self._changed.notify_all()

    def take(self) -> Batch | None:
        """Return the oldest group's messages once there are some; None once closed."""
        with self._changed:
            while not self._state.closed:
                now = self._monotonic()
                batch = self._due(now)
                if batch is not None:
                    return batch
                self._changed.wait(self._until_due(now))
            return None

    def _free(self) -> list[Message]:
        return [one for one in self._state.messages if one.group not in self._state.busy]

    def _due(self, now: float) -> Batch | None:
        ready = [one for one in self._free() if one.not_before <= now]
        if not ready:
            return None
        group = ready[0].group
        taken = tuple(one for one in ready if one.group == group)[:MAX_BATCH]
        for one in taken:
            one.received += 1
            self._state.messages.remove(one)
        self._state.busy.add(group)
        return Batch(group, taken)

    def _until_due(self, now: float) -> float | None:
        """Return for how long nothing can be due by itself; None for until something changes."""
        times = [one.not_before for one in self._free()]
        return max(0.0, min(times) - now) if times else None

    def done(self, batch: Batch, failed: Sequence[str]) -> None:
        """Give a batch back; what failed comes again, `MAX_RECEIVES` times in all at most."""
        with self._changed:
            self._state.busy.discard(batch.group)
            again = self._monotonic() + AGAIN_AFTER_S
            for one in batch.messages:
                if one.id not in failed:
                    continue
                if one.received >= MAX_RECEIVES:
                    self._state.dead.append(one)
                else:
                    one.not_before = again
                    self._state.messages.append(one)
            self._changed.notify_all()

    def dead_letters(self) -> list[Any]:
        """Return the bodies of the messages that were given up."""
        with self._changed:
            return [json.loads(one.body) for one in self._state.dead]

    def close(self) -> None:
        """Let all who wait for messages go."""
        with self._changed:
            self._state.closed = True
            self._changed.notify_all()
