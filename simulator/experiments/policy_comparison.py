"""Completion times of a site's own jobs under other policies: by size, user and partition, and the share that loses.

Compared are the times that accounting recorded, a replay of the same jobs under a policy like the present one, and replays under
the alternatives. The first two show how accurate replays are for the site: what a replay leaves out (nodes that were down, fair
share, reservations, other resources than GPUs) is in the recorded times only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.experiments.experiment import Run, Setup, run_experiments, whole
from tiresias.simulator.experiments.tenant_runs import SharedCluster
from tiresias.simulator.formats.shadow_journal import ShadowRecord
from tiresias.simulator.formats.trace_columns import grouped
from tiresias.simulator.outcome_metrics import Summary, queueing, waiting
from tiresias.simulator.trace import Trace

RECORDED = "recorded"
SIZES = (1, 2, 4, 8, 16, 32, 64)  # GPUs: the first of each group
SHOWN = 10  # users: those with the most GPU time
WORSE = 1.1  # multiple of the present JCT above which a job, or a user, loses


@dataclass(frozen=True, slots=True, eq=False)
class PolicyComparison:
    """The results of all replays.

    Attributes:
        setup: The trace and the cluster.
        runs: The present policy first, then the alternatives.
        jct: Completion times, seconds, shape (jobs,) each; RECORDED first where accounting contains them.
        seen: What a controller in mode shadow recorded, where the jobs come from there.
        shared: The virtual clusters in which the alternatives were replayed; None: there are none.
    """

    setup: Setup
    runs: Mapping[str, Run]
    jct: Mapping[str, Floats]
    seen: ShadowRecord | None = None
    shared: SharedCluster | None = None

    @property
    def present(self) -> str:
        """The name of the present policy."""
        return next(iter(self.runs))

    @property
    def alternatives(self) -> list[str]:
        """The names of the other policies."""
        return list(self.runs)[1:]

    @property
    def trust(self) -> float | None:
        """Mean JCT of the replay of the present policy over the recorded one; None: accounting does not contain the latter."""
        if RECORDED not in self.jct:
            return None
        return float(self.jct[self.present].mean() / self.jct[RECORDED].mean())

    @property
    def groups(self) -> dict[str, dict[str, Ints]]:
        """The rows by GPUs, by user and by virtual cluster or partition."""
        return groups(self.setup.trace, self.shared)

    def waits(self) -> dict[str, ClusterWaits]:
        """Return the waits of the jobs of each virtual cluster."""
        rows_of = self.shared.rows(self.setup.trace) if self.shared else {}
        waited = {name: self._waited(name) for name in self.jct}
        return {
            cluster: ClusterWaits(len(rows), {name: waiting(delay[rows], 99) for name, delay in waited.items()})
            for cluster, rows in rows_of.items()
        }

    def _waited(self, name: str) -> Floats:
        """Return how long each job waited in a run or in the recorded times, seconds, shape (jobs,)."""
        if name in self.runs:
            return queueing(self.setup.trace, self.runs[name].outcome)
        waited: Floats = self.jct[name] - self.setup.trace.duration
        return waited


class ClusterWaits(NamedTuple):
    """How long the jobs of one virtual cluster waited.

    Attributes:
        jobs: Number of its jobs.
        runs: Mean and 99th percentile of their waiting time, seconds, by run.
    """

    jobs: int
    runs: dict[str, Summary]


def compare_policies(
    setup: Setup,
    present: str,
    alternatives: tuple[str, ...],
    seen: ShadowRecord | None = None,
    shared: SharedCluster | None = None,
) -> PolicyComparison:
    """Replay the trace of the setup under the present policy and the alternatives; these in virtual clusters, if there are any."""
    experiments = (
        shared.experiments(setup, alternatives) if shared else {each: setup.experiment(each) for each in alternatives}
    )
    plain = replace(setup.config, fairness="none")  # owners share in the alternatives
    runs = run_experiments({present: setup.experiment(present, plain), **experiments}, whole)
    jct = {name: run.outcome.jct for name, run in runs.items()}
    recorded = recorded_jct(setup.trace)
    return PolicyComparison(setup, runs, jct if recorded is None else {RECORDED: recorded, **jct}, seen, shared)


def recorded_jct(trace: Trace) -> Floats | None:
    """Return the recorded completion times, or None if the end of a job is missing."""
    if not len(trace.finish) or np.isnan(trace.finish).any():
        return None
    found: Floats = trace.finish - trace.submit
    return found


def groups(trace: Trace, shared: SharedCluster | None = None) -> dict[str, dict[str, Ints]]:
    """Return the rows by GPUs, by user and by virtual cluster or partition; the latter two where the trace has several."""
    clusters = {"virtual cluster": shared.rows(trace)} if shared else {"partition": _by_word(trace, trace.vc)}
    found = {"GPUs": dict(_by_size(trace.gpus)), "user": _by_word(trace, trace.user), **clusters}
    return {kind: rows for kind, rows in found.items() if kind == "GPUs" or len(rows) > 1}


def _by_size(gpus: Ints) -> Iterator[tuple[str, Ints]]:
    for low, high in zip(SIZES, (*SIZES[1:], np.inf), strict=True):
        rows = np.flatnonzero((gpus >= low) & (gpus < high))
        if len(rows):
            last = f"-{int(high) - 1}" if high < np.inf else "+"
            yield f"{low}{'' if high == low + 1 else last}", rows


def _by_word(trace: Trace, words: tuple[str, ...]) -> dict[str, Ints]:
    """Return the rows of the words with the most GPU time, then those of all others as one group."""
    service: Counter[str] = Counter()
    for word, seconds in zip(words, (trace.gpus * trace.duration).tolist(), strict=True):
        service[word] += seconds
    shown = [word for word, _ in service.most_common(SHOWN)]
    column = np.array(words, dtype=object)
    found = {word or "(none)": np.flatnonzero(column == word) for word in shown}
    others = np.flatnonzero(~np.isin(words, shown))
    return found | ({f"{len(service) - SHOWN} others": others} if len(others) else {})


def numbers(jct: Floats, rows: Ints) -> dict[str, float]:
    """Return the metrics of some of the jobs."""
    median, p95 = np.percentile(jct[rows], (50, 95)).tolist()
    return {"mean_jct": float(jct[rows].mean()), "median_jct": median, "p95_jct": p95}


def losers(found: PolicyComparison, policy: str) -> dict[str, float]:
    """Return the share of jobs and of users that lose, and the mean loss of those jobs, seconds.

    A job loses if its JCT is more than WORSE times that in the replay of the present policy; a user, if the mean JCT is.
    """
    now, then = found.jct[found.present], found.jct[policy]
    worse = then > WORSE * now
    users, user = grouped(found.setup.trace.user)
    losing = np.bincount(user, then) > WORSE * np.bincount(user, now)
    lost = float((then - now)[worse].mean()) if worse.any() else 0.0
    return {"jobs": float(worse.mean()), "users": float(losing.sum()) / max(len(users), 1), "seconds": lost}
