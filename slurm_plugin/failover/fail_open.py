"""Fail open: what a command does in place of a controller that is dead, hung, or stopped, so that Slurm schedules alone.

The command leads for that time, in an epoch of its own (leadership.py): a controller that continues later detects that it has been
superseded, becomes a standby, and takes the jobs over again from the journal.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from tiresias.durable.database import StateError
from tiresias.durable.leadership import BEATS, Leadership
from tiresias.protocol import job_submit_lease
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.failover.standby import leadership_of, leading
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.owner import as_owner
from tiresias.slurm_plugin.state.switches import STOPPED, switched

T = TypeVar("T")


def held(config: Config) -> int | None:
    """Return the number of jobs that the journal has as held or in a transition.

    None: the journal cannot be read until a leader has opened it.
    """
    return _queried(config, History.count_controlled, 0)


def is_stopped(config: Config) -> bool:
    """Return whether the journal forbids controllers to lead (`tiresias stop --release`)."""
    return _queried(config, lambda history: switched(history, STOPPED), None) is not None


def _queried(config: Config, query: Callable[[History], T], nothing: T) -> T | None:
    """Return the result of a query of the journal; `nothing` if the state folder is empty."""
    path = (config.paths.state / FILE).absolute()
    if not path.exists():
        return nothing
    with contextlib.suppress(sqlite3.Error, StateError), closing(History.of(path)) as history:
        return query(history)
    return None


def is_silent(leadership: Leadership, seconds: float) -> bool:
    """Return whether no controller leads for so many seconds of the steady clock; False as soon as one renews its lease.

    A new leader must renew its first lease, too: a controller that ends soon after each start does not lead. Its starts prolong
    the wait by one lease at most.
    """
    last, end = leadership.lease(), time.monotonic() + seconds
    latest = end + leadership.seconds
    while (now := time.monotonic()) < end:
        time.sleep(min(leadership.pause, seconds))
        lease = leadership.lease()
        if lease.epoch != last.epoch:
            end = min(max(end, now + 2 * leadership.seconds / BEATS), latest)
        elif lease.released and not last.released:
            end, latest = now + seconds, now + seconds + leadership.seconds
        elif lease != last:
            return False
        last = lease
    return True


@contextmanager
def own_journal(config: Config) -> Iterator[Journal]:
    """Open the journal while no controller leads. Raises TiresiasError if one does."""
    state = config.paths.state
    with as_owner(state), leading(config) as leadership, closing(Journal(state, leadership.epoch)) as journal:
        yield journal


@contextmanager
def seized(config: Config) -> Iterator[Leadership | None]:
    """Take the lead from any controller; yield None where another process took it first."""
    with contextlib.suppress(OSError):  # no run folder on this host, or without the right to write to it
        (config.paths.run / job_submit_lease.FILE).unlink()  # job_submit.lua delays no more jobs
    with as_owner(config.paths.state):
        leadership = leadership_of(config)
        try:
            yield leadership if leadership.seize() else None
        finally:
            leadership.step_down()
