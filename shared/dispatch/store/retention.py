"""The contract behind retention: what is due for an archive, and what for removal, without a walk.

What was removed stands in neither list, so a run costs what is due and nothing for what is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from dispatch.record.view import View


class Retention(Protocol):
    """Finds settled records by their age, and tombstoned ones that still hold entries."""

    def archivable(self, settled_by: datetime) -> Iterable[str]:
        """Yield every job that was settled by then, is closed and isn't tombstoned, in no order.

        Closed as `Agenda.close` leaves it: no Find covers it any more. The index may lag.

        Args:
            settled_by: The latest settled label that counts.

        Raises:
            StoreUnavailable: Try later.
        """
        ...

    def removable(self) -> Iterable[str]:
        """Yield every tombstoned job that `remove` hasn't finished with, in no order.

        A job that is tombstoned again is yielded again. The index may lag.

        Raises:
            StoreUnavailable: Try later.
        """
        ...

    def read_tombstoned(self, job_id: str) -> View | None:
        """Return a tombstoned record while it is still whole; None once any of it is removed.

        Raises:
            JobNotFound: No such record.
            NotSettled: It isn't tombstoned.
            StoreUnavailable: Try later.
        """
        ...
