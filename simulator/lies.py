"""Whole lists that are empty and wrong: only a sweep that knows enough live objects disbelieves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatch.record.names import Capability
from dispatch.supervisor.belief import MASS_LOSS_LEAST
from dispatch.supervisor.health import loss_accepted_at
from simulator.store import Dialect

if TYPE_CHECKING:
    from simulator.run import Run

LONGEST_S = 60.0

NOT_KNOWN_YET = 2
"""So many live objects another supervisor may have written down since one listed what it knows."""


class Lies:
    """When every list is empty, and says that it is whole.

    Attributes:
        until: Lists lie until then, true time.
        stubborn: Whether they do even where a lie can't be told from the truth any more.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.until = -1.0
        self.stubborn = False

    def tell(self, seconds: float) -> None:
        """Let every list lie for so long, if enough is known to be live."""
        run = self._run
        if run.scenario.sweeping and self._matter():
            self.until = run.stage.now + seconds
            run.stage.tell("(outside)", f"for {seconds:.0f} s every list is empty")

    def insist(self, seconds: float) -> None:
        """Let every list lie for so long, whatever is known."""
        self.until, self.stubborn = self._run.stage.now + seconds, True

    def once_they_matter(self) -> None:
        """Wait until an empty list would be a mass loss; then lie."""
        run = self._run
        if run.stage.now >= run.scenario.calm_at:
            return
        if run.scenario.sweeping and self._matter():
            self.tell(run.again.span(1, LONGEST_S))
        else:
            run.stage.after(2.0, self.once_they_matter)

    def are_told(self) -> bool:
        """Return whether lists lie now."""
        return self._run.stage.now < self.until and (self.stubborn or self._matter())

    def _matter(self) -> bool:
        """Return whether so much is known to be live that its loss would be a mass loss.

        Once a person said that a loss is real, looks are believed for an hour, lies among them.
        That what has ended isn't listed is no loss where accounting can tell (ADR 40).
        """
        cluster = self._run.scenario.declared.cluster
        if loss_accepted_at(self._run.records, cluster, None) is not None:
            return False
        own = self._run.scenario.dialects == (Dialect.OWN,)  # another build can't read every record
        known = {
            ref
            for one in self._run.records.open_jobs(cluster)
            for ref, of in self._run.watch.job(one.job_id).objects.items()
            if not of.ended and (own or (one.quiet is not None and ref in one.quiet.live))
        }
        if self._run.scenario.declared.can(Capability.LOOKUP):
            known &= self._run.world.tokens().keys()
        return len(known) >= MASS_LOSS_LEAST + NOT_KNOWN_YET
