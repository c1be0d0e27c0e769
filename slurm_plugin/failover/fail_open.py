"""Slurm carries on alone: what is done in place of a controller that is dead, hung, or not to lead any more.

Whoever does it leads for that moment, in an epoch of its own (leadership.py): a controller that wakes up later finds that it has
been superseded, stands by, and takes the jobs up again from the journal.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.failover.standby import leadership_of, leading
from tiresias.slurm_plugin.lead.leadership import BEATS, Leadership
from tiresias.slurm_plugin.state.database import StateError
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.owner import as_owner
from tiresias.slurm_plugin.state.switches import STOPPED, switched

T = TypeVar("T")


def held(config: Config) -> int | None:
    """Jobs that wait for us alone, or that we are moving, as the journal has it. None: it cannot be read before a controller, or
    whoever acts in its place, has opened it."""
    return _told(config, History.count_controlled, 0)


def is_stopped(config: Config) -> bool:
    return _told(config, lambda history: switched(history, STOPPED), None) is not None


def _told(config: Config, question: Callable[[History], T], nothing: T) -> T | None:
    """`nothing`: of an empty state folder."""
    path = (config.paths.state / FILE).absolute()
    if not path.exists():
        return nothing
    with contextlib.suppress(sqlite3.Error, StateError), closing(History.of(path)) as history:
        return question(history)
    return None


def is_silent(leadership: Leadership, seconds: float) -> bool:
    """Whether no controller leads for so long, by our own steady clock. False as soon as one renews its lease.

    A new leader has to renew its first lease, too: a controller that ends soon after each start leads nothing. Its starts prolong
    the watch by one lease at most.
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
    """The journal while no controller runs. Raises TiresiasError when one leads."""
    state = config.paths.state
    with as_owner(state), leading(config) as leadership, closing(Journal(state, leadership.epoch)) as journal:
        yield journal


@contextmanager
def seized(config: Config) -> Iterator[Leadership | None]:
    """The lead, whoever had it; None when somebody else was quicker."""
    with contextlib.suppress(OSError):  # no run folder here, or not ours
        (config.paths.run / "lease").unlink()  # job_submit.lua sets no more jobs aside
    with as_owner(config.paths.state):
        leadership = leadership_of(config)
        try:
            yield leadership if leadership.seize() else None
        finally:
            leadership.step_down()
