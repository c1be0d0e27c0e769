"""What the owners of jobs used, by the journal's runs, counted at the multiples of `policy.usage_period`.

What was used depends on nothing but the runs in the journal, Slurm's shares and the moment of the count, so it is the same after a
restart of the controller. Runs of cancelled, requeued and renamed jobs stay in the journal with their owner, and count. Excess
depends on the owners with waiting jobs, too: those of the first cycle after the moment, or after the restart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.fairness.decayed_service import decayed_service, last_count, since
from tiresias.scheduler.fairness.owner_shares import excesses, shares_of, uses
from tiresias.slurm_plugin.backends.slurm_rules import FairShare
from tiresias.slurm_plugin.cluster.fair_share_tree import shares_of_accounts, shares_of_users
from tiresias.slurm_plugin.state.journal_history import ServedRun

NEGLIGIBLE_GPU_S = 1e-3
LATE_S = 3600.0  # the end of a job is in the journal so many seconds later, at most
Served = Mapping[str, Mapping[str, float]]

_OWNER: Mapping[str, Callable[[ServedRun], str]] = {
    "users": lambda run: str(run.uid),
    "user": lambda run: str(run.uid),
    "accounts": lambda run: run.account,
    "array": lambda run: f"{run.uid} {array_of(run.job)}",
}


class ServedRuns(Protocol):
    """Where runs are read: a journal."""

    def served_runs(self, since: float) -> list[ServedRun]:
        """Return the runs of live jobs and of those that ended after an epoch second."""
        ...


@dataclass(frozen=True, slots=True)
class OwnerCount:
    """What was counted for one policy.

    Attributes:
        at: Epoch second of the count.
        use: What each user (uid) or account used, in multiples of its share; {}: owners do not share.
        share: The share of each of these, as a part of all shares of the owners that used any.
        excess: GPU-seconds that each owner used more than the waiting owner that used the least, by shares.
        served: Decayed GPU-seconds of each array or user whose attained service counts for its jobs.
    """

    at: float
    use: Mapping[str, float] = field(default_factory=dict)
    share: Mapping[str, float] = field(default_factory=dict)
    excess: Mapping[str, float] = field(default_factory=dict)
    served: Mapping[str, float] = field(default_factory=dict)


class EndedService(NamedTuple):
    """The service of jobs that ended, as it counts at a moment.

    Attributes:
        at: Epoch second.
        by_kind: Decayed GPU-seconds of owners, by the kind of owners.
        newest: Keys of the jobs that ended in the last LATE_S before it.
    """

    at: float
    by_kind: Served
    newest: frozenset[str] = frozenset()


_NOTHING = EndedService(-math.inf, {})


class OwnerUsage:
    """Counts the service of owners. The runs of jobs that ended are read once.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: ServedRuns) -> None:
        self._runs, self._counts = runs, dict[PolicyConfig, OwnerCount]()
        self._ended = dict[PolicyConfig, EndedService]()

    def of(
        self, config: PolicyConfig, now: float, tree: Sequence[FairShare], waiting: frozenset[str] = frozenset()
    ) -> OwnerCount:
        """Return the newest count for a policy. It reads the journal once in a period: the runs of live jobs and of those
        that ended since the count before, at first all that still count.

        Args:
            config: The policy.
            now: Epoch second.
            tree: Slurm's shares.
            waiting: The owners of jobs that wait for GPUs.
        """
        at, known = last_count(now, config.usage_period), self._counts.get(config)
        if known is None or known.at != at:
            others, ended = self._read(config, at)
            known = self._counts[config] = counted(others, config, at, tree, waiting, ended)
        return known

    def _read(self, config: PolicyConfig, at: float) -> tuple[list[ServedRun], EndedService]:
        """Return the runs of jobs that lived at an epoch second, and the service of those that had ended."""
        known = self._ended.get(config, _NOTHING)
        known = known if known.at <= at else _NOTHING  # the clock was set back
        runs = self._runs.served_runs(max(known.at - LATE_S, since(at, config.usage_half_life)))
        ended = [run for run in runs if 0.0 < run.over <= at]
        new = [run for run in ended if run.key not in known.newest]
        decay = 0.5 ** ((at - known.at) / config.usage_half_life) if known.by_kind else 0.0
        newest = frozenset(run.key for run in ended if run.over > at - LATE_S)
        found = EndedService(at, _added(known.by_kind, decay, _served(new, config, at)), newest)
        self._ended[config] = found
        return [run for run in runs if not 0.0 < run.over <= at], found

    def newest(self, config: PolicyConfig) -> OwnerCount | None:
        """Return the newest count that `of` made for a policy; None: it made none."""
        return self._counts.get(config)


def counted(
    runs: Sequence[ServedRun], config: PolicyConfig, at: float, tree: Sequence[FairShare],
    waiting: frozenset[str] = frozenset(), ended: EndedService | None = None,
) -> OwnerCount:  # fmt: skip
    """Return the count at an epoch second. `ended`: service besides that of the runs."""
    served = _added(ended.by_kind if ended else {}, 1.0, _served(runs, config, at))
    found = OwnerCount(at)
    if config.fairness != "none":
        shares = (shares_of_users if config.fairness == "users" else shares_of_accounts)(tree)
        found = _by_shares(at, served[config.fairness], shares, waiting)
    return replace(found, served=served[config.attained]) if config.attained != "job" else found


def _by_shares(
    at: float, served: Mapping[str, float], shares: Mapping[str, float], waiting: frozenset[str]
) -> OwnerCount:
    """Return the count of owners that share. Owners that wait and used nothing count, too."""
    names = [*served, *sorted(waiting - served.keys())]
    amounts, share = np.array([served.get(name, 0.0) for name in names]), shares_of(names, shares)
    active, waits = amounts > 0.0, np.array([name in waiting for name in names], np.bool_)
    part = share / (float(share[active].sum()) or 1.0)
    columns = uses(amounts, share), part, excesses(amounts, share, waits)
    use, part_of, excess = (dict(zip(names, column.tolist(), strict=True)) for column in columns)
    return OwnerCount(at, use, {name: part_of[name] for name in served}, excess)


def array_of(job: str) -> str:
    """Return the id of the array of a task, such as 12 of 12_3; the id of any other job."""
    return job.partition("_")[0]


def _served(runs: Sequence[ServedRun], config: PolicyConfig, at: float) -> Served:
    """Return the decayed service of owners of each kind that counts under a policy."""
    start, end, gpus = (np.array([run[place] for run in runs], np.float64) for place in (3, 4, 5))
    service = decayed_service(start, np.where(end, end, at), gpus, at, config.usage_half_life).tolist()
    return {kind: _sums(runs, service, _OWNER[kind]) for kind in (config.fairness, config.attained) if kind in _OWNER}


def _added(known: Served, decay: float, new: Served) -> Served:
    """Return what was known, decayed, and what is new."""
    found = dict[str, dict[str, float]]()
    for kind, amounts in new.items():
        kept = {name: amount * decay for name, amount in known.get(kind, {}).items()}
        found[kind] = {name: amount for name, amount in kept.items() if amount > NEGLIGIBLE_GPU_S}
        for name, amount in amounts.items():
            found[kind][name] = found[kind].get(name, 0.0) + amount
    return found


def _sums(runs: Sequence[ServedRun], service: Iterable[float], owner: Callable[[ServedRun], str]) -> dict[str, float]:
    """Return the service of each owner. A run whose owner is not known counts for none."""
    found = dict[str, float]()
    for run, served in zip(runs, service, strict=True):
        if served and (name := owner(run)):
            found[name] = found.get(name, 0.0) + served
    return found
