"""What a site's own jobs would have had under another policy: by size, user and partition, and who loses.

Side by side: what accounting recorded, a replay of the same jobs under a policy like the present one, and replays under ours. The
first two tell how far replays can be believed here: what a replay leaves out (nodes that were down, fair share, reservations,
other resources than GPUs) is in the one and not in the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.experiments.experiment import Run, Setup, run_experiments, whole
from tiresias.simulator.formats.shadow_journal import ShadowRecord
from tiresias.simulator.trace import Trace

RECORDED = "recorded"
SIZES = (1, 2, 4, 8, 16, 32, 64)  # GPUs: the first of each group
SHOWN = 10  # users: those with the most GPU time
WORSE = 1.1  # times the present JCT: who has more than that loses


@dataclass(frozen=True, slots=True, eq=False)
class PolicyComparison:
    """runs: the present policy first, then ours. jct: seconds, shape (jobs,) each, RECORDED first where accounting tells.
    seen: by a controller in mode shadow, where the jobs come from there."""

    setup: Setup
    runs: Mapping[str, Run]
    jct: Mapping[str, Floats]
    seen: ShadowRecord | None = None

    @property
    def present(self) -> str:
        return next(iter(self.runs))

    @property
    def ours(self) -> list[str]:
        return list(self.runs)[1:]

    @property
    def trust(self) -> float | None:
        """Mean JCT of the replay of the present by the recorded one; None: accounting does not tell the latter."""
        if RECORDED not in self.jct:
            return None
        return float(self.jct[self.present].mean() / self.jct[RECORDED].mean())


def compare_policies(
    setup: Setup, present: str, ours: tuple[str, ...], seen: ShadowRecord | None = None
) -> PolicyComparison:
    runs = run_experiments({name: setup.experiment(name) for name in (present, *ours)}, whole)
    jct = {name: run.outcome.jct for name, run in runs.items()}
    recorded = recorded_jct(setup.trace)
    return PolicyComparison(setup, runs, jct if recorded is None else {RECORDED: recorded, **jct}, seen)


def recorded_jct(trace: Trace) -> Floats | None:
    """None unless it is known of every job."""
    if not len(trace.finish) or np.isnan(trace.finish).any():
        return None
    found: Floats = trace.finish - trace.submit
    return found


def groups(trace: Trace) -> dict[str, dict[str, Ints]]:
    """Rows by GPUs, by user and by partition; the latter two where the trace names several."""
    found = {
        "GPUs": dict(_by_size(trace.gpus)),
        "user": _by_word(trace, trace.user),
        "partition": _by_word(trace, trace.vc),
    }
    return {kind: rows for kind, rows in found.items() if kind == "GPUs" or len(rows) > 1}


def _by_size(gpus: Ints) -> Iterator[tuple[str, Ints]]:
    for low, high in zip(SIZES, (*SIZES[1:], np.inf), strict=True):
        rows = np.flatnonzero((gpus >= low) & (gpus < high))
        if len(rows):
            last = f"-{int(high) - 1}" if high < np.inf else "+"
            yield f"{low}{'' if high == low + 1 else last}", rows


def _by_word(trace: Trace, words: tuple[str, ...]) -> dict[str, Ints]:
    """The ones with the most GPU time, then all others as one."""
    service: Counter[str] = Counter()
    for word, seconds in zip(words, (trace.gpus * trace.duration).tolist(), strict=True):
        service[word] += seconds
    shown = [word for word, _ in service.most_common(SHOWN)]
    column = np.array(words, dtype=object)
    found = {word or "(none)": np.flatnonzero(column == word) for word in shown}
    others = np.flatnonzero(~np.isin(words, shown))
    return found | ({f"{len(service) - SHOWN} others": others} if len(others) else {})


def numbers(jct: Floats, rows: Ints) -> dict[str, float]:
    """Of some of the jobs."""
    median, p95 = np.percentile(jct[rows], (50, 95)).tolist()
    return {"mean_jct": float(jct[rows].mean()), "median_jct": median, "p95_jct": p95}


def losers(found: PolicyComparison, policy: str) -> dict[str, float]:
    """Share of jobs and of users that have more than WORSE times the JCT that they have under the present policy's replay, and the
    mean of what those jobs lose, in seconds."""
    now, then = found.jct[found.present], found.jct[policy]
    worse = then > WORSE * now
    users = {user: np.array(found.setup.trace.user) == user for user in set(found.setup.trace.user)}
    behind = sum(bool(then[rows].mean() > WORSE * now[rows].mean()) for rows in users.values())
    lost = float((then - now)[worse].mean()) if worse.any() else 0.0
    return {"jobs": float(worse.mean()), "users": behind / max(len(users), 1), "seconds": lost}
