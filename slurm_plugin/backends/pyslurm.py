"""The back end over pyslurm: a listing of 10,000 jobs in the time of one RPC, holds and releases in a millisecond.

pyslurm lives in a worker process (pyslurm_worker.py), asked over pipes; a call that misses its deadline costs the worker its
life and the next call starts a new one. Where pyslurm 25.11 lacks a value or a correct operation, the commands are used:
- GPUs asked for with --gpus or --gpus-per-socket: those two read as nothing, and what accounting counts has no type;
- what a job holds on each node: get_resource_layout_per_node() reads a struct that 26.05 laid out anew, and crashes;
- the state under COMPLETING, the reason under a description;
- node counts and the node list of a job: modify() ignores the first and cannot clear the second;
- requeue, which without scontrol's "incomplete" runs a job again that has just ended; signals, whose errors it misreads.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tiresias.slurm_plugin.backends import processes, records, unreadable
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import (
    JobRefused,
    NoSuchJob,
    SlurmJob,
    SlurmNode,
    SlurmSnapshot,
    SlurmUnavailable,
)
from tiresias.slurm_plugin.backends.slurm_commands import checked, explain

Row = dict[str, Any]
WORKER = "tiresias.slurm_plugin.backends.pyslurm_worker"


class PyslurmBackend(CommandsBackend):
    """The back end over pyslurm; backends/interface.py describes its methods."""

    name = "pyslurm"

    def __init__(self, deadline: float = 10.0, prefix: Sequence[str] = (), python: str = sys.executable) -> None:
        """`python`: the interpreter that pyslurm was built for."""
        super().__init__(deadline, prefix)
        self._worker = Worker([*prefix, python, "-m", WORKER], deadline)
        self._rows: dict[int, Row] = {}
        self._illegible: list[int] = []  # numbers of the jobs that pyslurm cannot read

    def version(self) -> str:
        """Return Slurm's version."""
        return str(self._worker.read("version"))

    def start_worker(self) -> None:
        """Raises SlurmUnavailable when this interpreter cannot use pyslurm; slurmctld may be down."""
        self._worker.start()

    def snapshot(self) -> SlurmSnapshot:
        """Return all jobs and nodes."""
        now, self._unreadable = time.time(), []
        found = self._worker.read("jobs")
        changed = {row["job_id"]: row for row in map(self._worker.row, found["changed"]) if self._has_number(row)}
        gone = self._rows.keys() - changed.keys() if found["all"] else found["gone"]
        for number in [*gone, *self._illegible]:
            self._rows.pop(number, None)
            self._exclusive.discard(number)
        for row in changed.values():
            self._note(row, now)
        self._illegible = found["unreadable"]
        self._rows |= {number: {"read at": now} for number in self._illegible}  # squeue is asked in each snapshot
        self._cache.refresh(self._rows)
        return self._assemble(now, _with_gpus(self._nodes(self._worker.read("nodes")), self._cache))

    def job(self, job_id: str) -> SlurmJob:
        """Return one job."""
        now, number = time.time(), _number(job_id)
        row = self._row(number) if number else {}
        if row.get("job_id") != number or not number:  # of an array pyslurm shows the first record only
            return super().job(job_id)
        self._note(row, now)
        self._cache.update({number: self._rows[number]})
        for job in self._cache.of(number):
            if job.id == job_id and job.readable:
                return self._memory.fill(job, now)
        return super().job(job_id)

    def hold(self, job_id: str) -> None:
        """Hold a job."""
        if number := _number(job_id):
            self._ask(number, "hold")
        else:
            super().hold(job_id)

    def lift(self, job_id: str) -> None:
        """Lift a job's hold."""
        if number := _number(job_id):
            self._ask(number, "release")
        else:
            super().lift(job_id)

    def close(self) -> None:
        """End what the back end keeps open."""
        self._worker.stop()

    def _row(self, number: int) -> Row:
        """{} of a job that pyslurm cannot read."""
        try:
            return self._worker.row(self._ask(number, "job"))
        except NoSuchJob:
            raise
        except JobRefused:
            return {}

    def _has_number(self, row: Row) -> bool:
        found = row["job_id"]
        if isinstance(found, int) and found > 0:
            return True
        self._unreadable.append(f"{unreadable.NO_ID}: {found!s:.40}")
        return False

    def _ask(self, number: int, verb: str) -> Any:
        try:
            return self._worker.call(verb, number)
        except JobRefused as error:
            raise type(error)(f"job {number}: {error}") from None

    def _note(self, row: Row, now: float) -> None:
        """Take a row as the job's signature, and its jobs from it where the row is complete; else the cache queries squeue."""
        number, old = row["job_id"], self._rows.get(row["job_id"], {})
        if row == old:
            return
        self._rows[number] = row
        (self._exclusive.add if row["shared"] else self._exclusive.discard)(number)
        alike = ("priority", "admin_comment", "comment")  # what may differ although the rest of the record is the same
        if old and row["priority"] and old["priority"] and {**old, **{name: row[name] for name in alike}} == row:
            if self._cache.signature(number) is old:
                changed = {"priority": row["priority"], "comments": records.comments(row)}
                self._cache.put(number, [replace(job, **changed) for job in self._cache.of(number)], row)
        elif _is_complete(row):
            jobs = unreadable.jobs([row], now, self._unreadable.append)
            if all(job.readable for job in jobs):
                self._cache.put(number, jobs, row)


def _number(job_id: str) -> int:
    """The record's; 0 for a task of an array, which has none while it is not split, and for a het component."""
    return int(job_id) if checked(job_id).isdigit() else 0


def _is_complete(row: Row) -> bool:
    state, *_ = records.words(row["job_state"]) or [""]
    seen = any("gpu" in str(row[field]) for field in ("tres_per_node", "tres_per_task"))
    plain = state in records.JOB_STATES and state not in records.ACTIVE and " " not in str(row["state_reason"])
    return seen and plain and not row["dependency"]


def _with_gpus(nodes: Sequence[SlurmNode], jobs: Iterable[SlurmJob]) -> list[SlurmNode]:
    """Add the GPUs in use, which pyslurm shows only if they are accounted; as in Slurm, a COMPLETING job's count as free."""
    taken: Counter[str] = Counter()
    for job in jobs:
        if not job.completing:
            taken.update({share.node: share.gpus for share in job.shares})
    return [replace(node, gpus_allocated=taken[node.name]) for node in nodes]


class Worker:
    """The process at the other end of the pipes: started when needed, killed when late."""

    def __init__(self, argv: Sequence[str], deadline: float) -> None:
        self._argv, self._deadline = list(argv), deadline
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._fields: list[str] = []

    def start(self) -> None:
        """Start the process, unless it runs. Raises as `call` does."""
        if self._process is None:
            pipe = subprocess.PIPE
            environment = {**processes.environment(), "PYSLURM_DISABLE_AUTO_INIT": "1"}
            self._process, self._rest = subprocess.Popen(
                self._argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment, cwd="/", start_new_session=True
            ), b""  # fmt: skip
            self._fields = self._answer()

    def call(self, verb: str, *arguments: object) -> Any:
        """Raises SlurmUnavailable when no answer comes in time or the worker dies, JobRefused for what Slurm refuses."""
        self.start()
        assert self._process
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps([verb, *arguments]).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._lost() from None
        return self._answer()

    def read(self, verb: str) -> Any:
        """A question about no job in particular cannot be refused to one."""
        try:
            return self.call(verb)
        except JobRefused as error:
            raise SlurmUnavailable(f"pyslurm: {error}") from None

    def row(self, values: Sequence[Any]) -> Row:
        """Return the values of a row by the names of its fields."""
        return dict(zip(self._fields, values, strict=True))

    def stop(self) -> None:
        """Kill the process; the next call starts another one."""
        if self._process:
            processes.kill_group(self._process)
            self._process.communicate()
            self._process = None

    def _answer(self) -> Any:
        answer = json.loads(self._line())
        if "error" in answer:
            error = explain(answer["error"])
            if isinstance(error, SlurmUnavailable):
                self.stop()  # pyslurm may keep an old address of slurmctld
            raise error
        return answer["ok"]

    def _line(self) -> bytes:
        assert self._process
        assert self._process.stdout
        pieces, until, pipe = [self._rest], time.monotonic() + self._deadline, self._process.stdout.fileno()
        while b"\n" not in pieces[-1]:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self.stop()
                raise SlurmUnavailable(f"pyslurm did not answer within {self._deadline:g} s: is slurmctld up?")
            pieces.append(os.read(pipe, 1 << 20))
            if not pieces[-1]:
                raise self._lost()
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def _lost(self) -> SlurmUnavailable:
        assert self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.poll() or 0
        self.stop()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return SlurmUnavailable(f"pyslurm's process ended ({how}): can {self._argv[-3]} import pyslurm?")
