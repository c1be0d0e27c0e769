"""Build the state database again from accounting and the queue, next to the old one, then replace the old one atomically.

Accounting supplies the jobs and their runs, the queue what is pending and running now. The old database, where it can still be
read, supplies what is recorded nowhere else: promotions, the controller's holds and node lists, preemption costs, decisions and
open transitions. Where it cannot be read, holds and node lists are assumed to belong to users or administrators: to remove one
that an administrator has set is worse than to ask.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tiresias.durable.database import Damaged, Unwritable, copy, sync
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.accounting.accounted_jobs import AccountedJob, AccountedRun
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.failover.standby import leading
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import ACTIVE, Ledger, kind
from tiresias.slurm_plugin.state.owner import as_owner
from tiresias.slurm_plugin.state.schema import open_current


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild.

    Attributes:
        jobs: The number of jobs from accounting.
        runs: The number of runs from accounting.
        live: The number of live jobs in the new database.
        lost: The number of runs without an end, of jobs that Slurm has forgotten.
        held: Live jobs with an administrator's hold of unknown origin.
        pinned: Live jobs with a node list of unknown origin.
        damage: Why nothing was copied from the old database; "" if it was copied.
        kept: The path of the old database.
    """

    jobs: int
    runs: int
    live: int
    lost: int
    held: tuple[str, ...]
    pinned: tuple[str, ...]
    damage: str
    kept: str


def rebuild(config: Config, accounted: Sequence[AccountedJob], snapshot: SlurmSnapshot, claim: bool = False) -> Rebuilt:
    """Build the new database and replace the old one.

    Args:
        config: The configuration of the controller.
        accounted: All jobs from accounting.
        snapshot: The queue.
        claim: Whether holds and node lists of unknown origin are treated as the controller's.

    Raises:
        TiresiasError: Something prevents it, such as a controller that leads.
    """
    folder, scope = config.paths.state, Scope.of(config)
    _refuse_without_gpus(accounted, snapshot, scope)
    try:
        with (
            as_owner(folder),
            leading(config) as leadership,
            _workshop(folder) as new,
        ):
            damage = _salvage(folder / FILE, new / FILE)
            with closing(Journal(new, leadership.epoch)) as journal:
                filled = _fill(journal, accounted, snapshot, scope, claim)
            leadership.renew()
            return replace(filled, damage=damage, kept=_swap(new / FILE, folder / FILE))
    except OSError as error:
        raise Unwritable(folder / FILE, error.strerror or str(error)) from None


@contextmanager
def _workshop(folder: Path) -> Iterator[Path]:
    """Make a folder on the same file system; remove those that killed rebuilds left."""
    for left in folder.glob("rebuild-*"):
        shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(dir=folder, prefix="rebuild-") as name:
        yield Path(name)


def _refuse_without_gpus(accounted: Sequence[AccountedJob], snapshot: SlurmSnapshot, scope: Scope) -> None:
    running = [job.id for job in snapshot.jobs if job.shares and not job.completing and not scope.why_not(job)]
    if running and not accounted:
        raise TiresiasError(
            f"accounting has no run on GPUs, though job {running[0]} runs: set AccountingStorageTRES=gres/gpu in slurm.conf; "
            "it counts from then on"
        )


def _salvage(old: Path, new: Path) -> str:
    """Copy the old database. Return why it cannot be used; "" if it was copied. Opening it applies its write-ahead log."""
    if not old.exists():
        return "there is none"
    try:
        with closing(open_current(old)) as db:
            copy(db, new)
    except Damaged as error:
        return error.problem
    return ""


def _swap(new: Path, place: Path) -> str:
    """Replace the old database, which is kept under another name. A complete database exists under the right name all the time."""
    kept = place.with_name(time.strftime(f"{place.stem}.%Y-%m-%d-%H%M%S{place.suffix}"))
    sync(new)
    if place.exists():
        os.link(place, kept)
    for suffix in ("-journal", "-wal", "-shm"):  # a log must not be applied to another database
        with suppress(FileNotFoundError):
            place.with_name(place.name + suffix).replace(kept.with_name(kept.name + suffix))
    new.replace(place)
    sync(place.parent)
    return str(kept) if kept.exists() else ""


def _fill(
    journal: Journal, accounted: Sequence[AccountedJob], snapshot: SlurmSnapshot, scope: Scope, claim: bool
) -> Rebuilt:
    ledger = Ledger(journal, scope)
    live = {job.id: job for job in snapshot.jobs if not scope.why_not(job) and (job.state in ACTIVE or job.completing)}
    unknown = live.keys() - ledger.jobs.keys()
    with journal.batch():
        lost = _write(journal, sorted(accounted, key=lambda job: job.submit), live)
    ledger = Ledger(journal, scope)
    ledger.apply(snapshot)
    held = [job.id for job in live.values() if job.held_by_admin and not ledger.jobs[job.id].held]
    pinned = [job.id for job in live.values() if job.required_nodes and job.id in unknown & ledger.jobs.keys()]
    if claim:
        _claim(ledger, held, pinned)
    runs = sum(len(job.runs) for job in accounted)
    return Rebuilt(len(accounted), runs, len(ledger.jobs), lost, tuple(held), tuple(pinned), "", "")


def _write(journal: Journal, accounted: Sequence[AccountedJob], live: Mapping[str, SlurmJob]) -> int:
    """Write all jobs and runs; return the number of runs whose end is unknown. `accounted` is sorted by submit time."""
    known = {row.key: row for row in journal.jobs()}
    newest = {job.id: job for job in accounted}
    lost = 0
    for job in accounted:
        alive = live.get(job.id) if newest[job.id] is job else None
        if alive and not alive.restarts and abs(alive.submit_time - job.submit) > 1:
            alive = None  # it got the id of one that has ended
        row = next((known[key] for key in _keys(job) if key in known), None) or _row(job, alive)
        row.ended, row.over = alive is None, 0.0 if alive else max([job.submit, *(run.end for run in job.runs)])
        journal.save_job(row)
        lost += _write_runs(journal, row, job, alive)
    return lost


def _keys(job: AccountedJob) -> Iterator[str]:
    """Yield the possible keys of a job; the submit time in accounting may be a second off."""
    return (f"{job.id}@{job.submit + off:.0f}" for off in (0, -1, 1))


def _row(job: AccountedJob, alive: SlurmJob | None) -> JobRow:
    return JobRow(
        next(_keys(job)),
        job.id,
        job.uid,
        job.submit,
        preemptions=job.preemptions,
        last_preempted=job.last_preempted,
        kind=kind(alive, alive.script) if alive else "",
    )


def _write_runs(journal: Journal, row: JobRow, job: AccountedJob, alive: SlurmJob | None) -> int:
    """Write the ended runs; the ledger adds the current run from the queue, with the GPUs on each node."""
    known = {run.restart: run for run in journal.runs(row.key)}
    current = alive.restarts if alive and alive.shares else -1
    journal.forget_runs(row.key)
    for run in job.runs:
        if run.restart != current and (run.end or alive):
            journal.save_run(_run(row.key, run, known.get(run.restart)))
    if current in known:
        journal.save_run(known[current])
    return 0 if alive else sum(not run.end for run in job.runs)


def _run(key: str, run: AccountedRun, known: RunRow | None) -> RunRow:
    """Accounting has the nodes, but the GPUs on each node only where there is one node."""
    nodes = f"{run.nodes[0]}:{run.gpus}" if len(run.nodes) == 1 else ",".join(run.nodes)
    if known is None:
        return RunRow(key, run.restart, run.start, run.end, run.gpus, nodes)
    return replace(known, start=run.start, end=run.end, gpus=run.gpus)


def _claim(ledger: Ledger, held: Iterable[str], pinned: Iterable[str]) -> None:
    for job_id in held:
        ledger.jobs[job_id].held = True
    for job_id in pinned:
        row = ledger.jobs[job_id]
        row.pinned, row.min_nodes, row.max_nodes, row.required = True, 1, 0, ""
    for job_id in {*held, *pinned}:
        ledger.save(ledger.jobs[job_id])
