"""Queries of Slurm's accounting by `sacct`. The calling user must be allowed to see the jobs of all users."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from tiresias.errors import Unavailable
from tiresias.slurm_plugin.accounting.accounted_jobs import FIELDS, RESTARTS, AccountedJob, AccountedRow, jobs, rows
from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.cluster.scope import Scope

DEADLINE = 900.0  # seconds for a query: a year of a large site is millions of rows
JOBS_PER_QUERY = 1000


def accounted(since: float, also: Collection[str], scope: Scope) -> list[AccountedJob]:
    """Return the managed jobs that existed at or after `since`, each with all its runs, also earlier ones.

    Args:
        since: Epoch seconds.
        also: The ids of further jobs.
        scope: Which jobs are managed.

    Raises:
        Unavailable: sacct fails.
    """
    fields = _fields()
    recent = list(_ask(fields, f"--starttime=uts{since:.0f}"))
    cut = {job.id for job in jobs(recent, scope) if job.submit < since or not job.whole}
    whole = {_record(job_id) for job_id in cut.union(also)}
    found = [row for row in recent if _record(row.id) not in whole]
    for some in _portions(sorted(whole)):
        found += _ask(fields, f"--jobs={','.join(some)}")
    return jobs(found, scope)


def _fields() -> str:
    known = _sacct("--helpformat").split()
    return ",".join([*FIELDS, *([RESTARTS] if RESTARTS in known else [])])


def _ask(fields: str, which: str) -> Iterator[AccountedRow]:
    answer = _sacct("--duplicates", "--allusers", "--allocations", "--parsable2", f"--format={fields}", which)
    return rows(answer.splitlines(), "sacct")


def _sacct(*options: str) -> str:
    done = processes.run(["sacct", *options], DEADLINE, variables={"SLURM_TIME_FORMAT": "%s"})
    words = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode:
        raise Unavailable(
            f"sacct: {words[-1] if words else done.returncode}; the ledger is rebuilt from slurmdbd's accounting"
        )
    return done.stdout.decode(errors="replace")


def _record(job_id: str) -> str:
    """Return the id for --jobs: the array of a task."""
    return job_id.partition("_")[0]


def _portions(ids: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while some := list(islice(rest, JOBS_PER_QUERY)):
        yield some
