"""What a store's tests have to say about it, so that the promises can be put to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatch.store.records import Store
from tests.conformance.records.race import Opener


class Harness:
    """The hooks. A store's test class inherits the contracts and overrides these.

    * `opener(place)`, required: returns what opens one store, empty at first, each time it is
      called: a callable without arguments that returns a context manager. It is called once a
      test. `place` is an empty folder of the test's own.
    * `lose_entry(store, job_id, revision)`, required: takes an entry away behind the store's back.
    * `catch_up(store)`: returns once the store's indexes show all that was written.
    * `processes`: over how many processes the 32 writers of the races are spread. With more than
      one, the opener is pickled.
    * `persisted`: how many entries each of them brings in against the others.
    """

    processes = 1
    persisted = 3

    def opener(self, place: Path) -> Opener:
        raise NotImplementedError

    def lose_entry(self, store: Store, job_id: str, revision: int) -> None:
        raise NotImplementedError

    def catch_up(self, store: Store) -> None:
        pass

    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opener:
        place = tmp_path / "store"
        place.mkdir()
        return self.opener(place)

    @pytest.fixture
    def store(self, opened: Opener) -> Iterator[Store]:
        with opened() as store:
            yield store
