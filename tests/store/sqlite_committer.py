"""Commits into one record of a file and says what was acknowledged, until it is killed.

Three entries at a time. Run with the file, the job and a name.
"""

import sys

from dispatch.errors import RevisionConflict
from dispatch.store.sqlite import SqliteRecords
from tests.conformance.records.samples import evidence, token


def main(path: str, job_id: str, name: str) -> None:
    store = SqliteRecords(path, token, busy_s=60)
    k = 0
    while True:
        revision = store.read(job_id).revision
        entries = [evidence(f"{name}.{k}.{part}") for part in range(3)]
        try:
            done = store.commit(job_id, revision, entries)
        except RevisionConflict:
            continue
        print(done, entries[-1].body, flush=True)
        k += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
