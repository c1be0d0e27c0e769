"""What is reached in an ideal order: preemptions are free, and the distribution of the durations is known at once; JSON.

    python bench/ideal_order.py [--traces DIR] [--seeds N ...] [--only half,all,p99]
    python bench/ideal_order.py --family exponential,drift,... [--traces DIR]

The traces are those of reports.py, on 60 GPUs; with `--family` those of bars.py, for p99 alone. At each moment the jobs run whose
completion is expected to cost the fewest GPU-seconds: of a job that reports its GPUs times its remaining seconds, of another job
its GPUs over its exact Gittins index, by the durations of the trace itself. Of each kind:

  half, all: so many jobs report once they have run for 30 s, as in reports.py: mean JCT over that without reports; the mean over
    the traces and the report seeds 1 to 3
  half_at_once, all_at_once: they report at their submission
  p99: without reports, the 99th percentile of JCT over the larger one of `fifo` and of this order where all report at once, as in
    bars.py; the mean over the traces, and on how many of them it is above
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from bar_traces import cases
from bars import TAIL_BAR
from reports import CLUSTER, KINDS, SEEDS, trace_of

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.claims import FIRST_CLAIM_S
from tiresias.scheduler.model import Bools, Floats
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace

LEAST_S = 1e-6  # between two moments, against rounding errors


class ExactIndex:
    """The Gittins index of a job of one of these durations, which are equally likely.

    Args:
        durations: Seconds, shape (jobs,).
    """

    def __init__(self, durations: Floats) -> None:
        self._ends = np.sort(durations)
        self._sum = np.concatenate(([0.0], np.cumsum(self._ends)))
        self._known: dict[float, tuple[float, float]] = {}

    def of(self, age: float) -> tuple[float, float]:
        """Return the index of a job that has run for so many seconds, 1 / s, and the age until which it is served for it."""
        if age not in self._known:
            self._known[age] = self._found(age)
        return self._known[age]

    def _found(self, age: float) -> tuple[float, float]:
        """Of each age at which a job may end: completions until then over the expected seconds of service until then."""
        first = int(np.searchsorted(self._ends, age, side="right"))
        ends = self._ends[first:]
        ended = np.arange(1, len(ends) + 1)
        seconds = self._sum[first + 1 :] - self._sum[first] + (len(ends) - ended) * ends - len(ends) * age
        rate = ended / seconds
        best = int(rate.argmax())
        return float(rate[best]), float(ends[best])


class IdealOrder:
    """A simulation of the order.

    Args:
        trace: The jobs.
        reports: Which jobs report, shape (jobs,).
        first_claim: Seconds on GPUs after which they do.
        gpus: Of the cluster.
    """

    def __init__(self, trace: Trace, reports: Bools, first_claim: float, gpus: int) -> None:
        self._free = gpus
        self._gpus, self._duration = trace.gpus.tolist(), trace.duration.tolist()
        self._submit, self._reports, self._first_claim = trace.submit, reports.tolist(), first_claim
        self._index = ExactIndex(trace.duration)
        self._age = [0.0] * len(trace)
        self._price, self._until = [0.0] * len(trace), [0.0] * len(trace)

    def jct(self) -> Floats:
        """Return the JCT of each job, seconds, shape (jobs,)."""
        arrivals = np.argsort(self._submit, kind="stable")[::-1].tolist()
        now, present, running, ends = 0.0, set[int](), list[int](), self._submit.copy()
        while arrivals or present:
            if not present:
                now = max(now, self._submit[arrivals[-1]])
            while arrivals and self._submit[arrivals[-1]] <= now:
                present.add(job := arrivals.pop())
                self._weigh(job)
            running = self._chosen(present, running)
            step = self._step(running, self._submit[arrivals[-1]] - now if arrivals else np.inf)
            now += step
            for job in self._ended(running, step):
                present.remove(job)
                ends[job] = now
        return np.asarray(ends - self._submit)

    def _weigh(self, job: int) -> None:
        """Find the job's price, GPU-seconds of a completion, and the age until which it holds."""
        age, last = self._age[job], self._duration[job]
        if self._reports[job] and age >= self._first_claim - LEAST_S:
            self._price[job], self._until[job] = self._gpus[job] * max(last - age, LEAST_S), last
            return
        index, until = self._index.of(age)
        self._price[job] = self._gpus[job] / index
        self._until[job] = min(until, last, self._first_claim if self._reports[job] else np.inf)

    def _chosen(self, present: set[int], running: list[int]) -> list[int]:
        """Return the jobs that run from now on: each in turn that fits; of the same price those that run."""
        held, free, found = set(running), self._free, list[int]()
        for job in sorted(present, key=lambda each: (self._price[each], each not in held, each)):
            if self._gpus[job] <= free:
                found.append(job)
                free -= self._gpus[job]
        return found

    def _step(self, running: list[int], arrival: float) -> float:
        """Return the seconds until a job arrives, ends or is weighed again."""
        return max(LEAST_S, min([arrival, *(self._until[job] - self._age[job] for job in running)]))

    def _ended(self, running: list[int], step: float) -> list[int]:
        """Let jobs run for so long; return those that end."""
        for job in running:
            self._age[job] += step
        over = [job for job in running if self._age[job] >= self._duration[job] - LEAST_S]
        for job in set(running).difference(over):
            self._weigh(job)
        return over


def alone(
    trace: Trace, share: float = 0.0, seed: int = 1, first_claim: float = 0.0, gpus: int = CLUSTER.gpus
) -> Floats:
    """Return the JCT of each job where a share of them reports, those that report in reports.py with this seed."""
    reports = ~np.isnan(Reporting(share, seed=seed).claims(trace).total)
    return IdealOrder(trace, reports, first_claim, gpus).jct()


def gain(traces: Sequence[Trace], share: float, first_claim: float) -> float:
    """Return mean JCT over that without reports."""
    without = [alone(trace).mean() for trace in traces]
    found = [
        alone(trace, share, seed, first_claim).mean() / before
        for trace, before in zip(traces, without, strict=True)
        for seed in SEEDS
    ]
    return round(float(np.mean(found)), 3)


def tail(trace: Trace, gpus: int) -> float:
    """Return the 99th percentile of JCT without reports over its bar."""
    experiment = Setup("", trace, ClusterSize(gpus, 1), PolicyConfig(), Cost()).experiment("fifo")
    fifo = simulate(experiment.trace, experiment.cluster, experiment.rules).jct
    orders = alone(trace, gpus=gpus), fifo, alone(trace, 1.0, gpus=gpus)
    found, bar, informed = (float(np.percentile(each, 99)) for each in orders)
    return found / max(bar, informed)


def tails(found: Iterable[float]) -> dict[str, float | int]:
    """Return the mean, and on how many traces the bar is missed."""
    each = np.array(list(found))
    return {"traces": len(each), "p99": round(float(each.mean()), 3), "p99_above": int((each > TAIL_BAR).sum())}


def measured(traces: Sequence[Trace], only: Sequence[str]) -> dict[str, float | int]:
    """Return the figures of one kind of traces."""
    result = dict[str, float | int]()
    for name, share in (("half", 0.5), ("all", 1.0)):
        if name in only:
            result |= {name: gain(traces, share, FIRST_CLAIM_S), f"{name}_at_once": gain(traces, share, 0.0)}
    return result | (tails(tail(trace, CLUSTER.gpus) for trace in traces) if "p99" in only else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--traces", type=Path, default=beside, help=f"folder with the traces (default: {beside})")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, metavar="N")
    parser.add_argument("--only", default="half,all,p99", help="(default: %(default)s)")
    parser.add_argument("--family", default="", help="of bars.py")
    args = parser.parse_args()
    families = [each for each in args.family.split(",") if each]
    for family in families:
        found = (tail(each.load(), each.gpus) for each in cases(args.traces) if each.family == family)
        print(json.dumps({"family": family, **tails(found)}), flush=True)
    for kind in () if families else KINDS:
        traces = [trace_of(args.traces, kind, seed, None) for seed in args.seeds]
        print(json.dumps({"kind": kind, **measured(traces, args.only.split(","))}), flush=True)


if __name__ == "__main__":
    main()
