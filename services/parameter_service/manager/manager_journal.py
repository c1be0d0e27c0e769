"""The journal of the manager: aggregators, jobs with their keys, and the assignment, in one SQLite file of the state folder.

Each write is on the disk before the operation that follows it. Only the manager that leads writes: durable/database.py refuses
others. The file has a rollback journal and no write-ahead log, for the reason that is given there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiresias.durable.database import Database, fence, make, open_database
from tiresias.services.parameter_service.manager.arrival_order import WaitingRow
from tiresias.services.parameter_service.manager.fleet_state import FleetMember, FleetState

FILE = "parameter-service.db"
_CURE = "stop the manager, remove the file and start it again: jobs register anew"
_TABLES = {
    "meta": "(name text primary key, value text not null)",
    "aggregator": "(number integer primary key, state text not null, slurm_job integer not null)",
    "client": "(job text primary key, uid integer not null, key text not null, content text not null)",
    "waiting": "(job text primary key, uid integer not null, servers integer not null)",
    "packing_piece": "(name text primary key, content text not null)",
}


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A registered job.

    Attributes:
        job: Its name.
        uid: Its owner.
        key: Its key, in hexadecimal.
        content: What registered_jobs.py stores of it.
    """

    job: str
    uid: int
    key: str
    content: dict[str, Any]

    def changed(self, **changes: Any) -> ClientRow:
        """Return the job with changes of its content."""
        return replace(self, content={**self.content, **changes})


class ManagerJournal:
    """The journal, opened by the manager that leads.

    Args:
        folder: The state folder; it is created for this user alone.
        epoch: The epoch of the lead: writes of earlier ones are refused from now on.

    Raises:
        StateError: The file cannot be used.
        Superseded: A later epoch leads.
    """

    def __init__(self, folder: Path, epoch: int) -> None:
        make(folder)
        self._db: Database = open_database(folder / FILE)
        self._db.cure = _CURE
        try:
            with self._db.transaction():
                for table, columns in _TABLES.items():
                    self._db.execute(f"create table if not exists {table} {columns}")
            fence(self._db, epoch, tuple(_TABLES))
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run the writes of the block as one transaction."""
        with self._db.transaction():
            yield

    # aggregators

    def members(self) -> dict[int, FleetMember]:
        """Return the aggregators by number."""
        rows = self._db.execute("select number, state, slurm_job from aggregator order by number")
        return {row[0]: FleetMember(row[0], FleetState(row[1]), row[2]) for row in rows}

    def put_member(self, member: FleetMember) -> None:
        """Write an aggregator."""
        row = (member.number, member.state.value, member.slurm_job)
        self._db.execute("insert or replace into aggregator values (?, ?, ?)", row)

    def remove_member(self, number: int) -> None:
        """Remove an aggregator."""
        self._db.execute("delete from aggregator where number = ?", (number,))

    # jobs

    def clients(self) -> dict[str, ClientRow]:
        """Return the registered jobs by name."""
        rows = self._db.execute("select job, uid, key, content from client order by rowid")
        return {row[0]: ClientRow(row[0], row[1], row[2], json.loads(row[3])) for row in rows}

    def put_client(self, row: ClientRow) -> None:
        """Write a job."""
        self._db.execute(
            "insert or replace into client values (?, ?, ?, ?)", (row.job, row.uid, row.key, json.dumps(row.content))
        )

    def remove_client(self, job: str) -> None:
        """Remove a job."""
        self._db.execute("delete from client where job = ?", (job,))

    # jobs that wait for the budget

    def waiting(self) -> list[WaitingRow]:
        """Return the waiting jobs in the order of their arrival."""
        return [WaitingRow(*row) for row in self._db.execute("select job, uid, servers from waiting order by rowid")]

    def put_waiting(self, rows: Sequence[WaitingRow]) -> None:
        """Write the waiting jobs, in the order of their arrival, where they have changed."""
        before = self.waiting()
        if before == list(rows):
            return
        gone, kept = set(before) - set(rows), set(before)
        with self._db.transaction():
            self._db.executemany("delete from waiting where job = ?", [(row.job,) for row in gone])
            self._db.executemany("insert into waiting values (?, ?, ?)", [row for row in rows if row not in kept])

    # the assignment

    def packing(self) -> dict[str, Any]:
        """Return the pieces of the assignment by name (assignment_journal.py); none before the first."""
        return {
            name: json.loads(content) for name, content in self._db.execute("select name, content from packing_piece")
        }

    def put_packing(self, changed: Mapping[str, Any], removed: Iterable[str]) -> None:
        """Write pieces of the assignment, in the transaction of the caller."""
        rows = [(name, json.dumps(content)) for name, content in changed.items()]
        self._db.executemany("insert or replace into packing_piece values (?, ?)", rows)
        self._db.executemany("delete from packing_piece where name = ?", [(name,) for name in removed])

    def put_numbers(self, requested: Iterable[int], released: Iterable[int]) -> None:
        """Request aggregators that are new, and release others, in the transaction of the caller."""
        members = self.members()
        for number in requested:
            if number not in members:
                self.put_member(FleetMember(number, FleetState.REQUESTED))
        for number in released:
            if number in members and members[number].state is not FleetState.CANCELLING:
                self.put_member(FleetMember(number, FleetState.CANCELLING, members[number].slurm_job))
