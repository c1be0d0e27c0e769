"""What progress reports gain under `adaptive`, and what wrong ones cost: ratios of mean JCT, a JSON line for each kind of trace.

    python bench/reports.py [--traces DIR] [--jobs N] [--seeds N ...] [--only half,...] [--known]

A preemption costs 62 s at the next start, the paper's mean; 60 GPUs. Means over three traces of each kind, and over the report
seeds 1 to 3 where not all jobs report alike, with their standard errors. `--seeds`: of other traces of the same kinds, which are
generated. `--known`: `adaptive` has learned from all jobs of the trace before the first one arrives:

  all, half: the jobs report; times `srsf`, and times no reports
  half_las: half of the jobs report; times the best of 54 fixed settings of `las`, chosen in hindsight
  wrong: totals wrong by up to a factor of 2; the part of the gain that remains
  honest, liars: the jobs of one owner, an eighth, always claim a tenth of what is left; the others' jobs and that owner's, times
    themselves where all are honest
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from bar_traces import SHAPES
from fixed_settings import FIXED

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED
from tiresias.scheduler.model import Bools, Floats
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.generators import paper_testbed
from tiresias.simulator.history import completed_jobs
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace, read_trace

CLUSTER = ClusterSize(15, 4)
COST = Cost(resume=62.0)  # 13,724 s for 221 preemptions, section 5.2
KINDS = ("testbed480", "testbed480cal")
SEEDS = (1, 2, 3)  # of the traces, and of the reports
FACTOR, LIARS = 2.0, 0.125


class Kind:
    """The traces of one kind, with what was simulated on them."""

    def __init__(self, traces: Iterable[Trace], known: bool) -> None:
        self.traces = list(traces)
        self._history = [completed_jobs(trace) if known else NO_JOBS_COMPLETED for trace in self.traces]

    @cache  # noqa: B019  # as long as the program runs
    def jct(self, at: int, policy: str = "adaptive", reporting: Reporting | None = None) -> Floats:
        """JCT of each job of one of the traces, seconds."""
        return self._with(at, policy, PolicyConfig(), reporting)

    def _with(self, at: int, policy: str, config: PolicyConfig, reporting: Reporting | None = None) -> Floats:
        setup = Setup("", self.traces[at], CLUSTER, config, COST, reporting=reporting, history=self._history[at])
        experiment = setup.experiment(policy)
        return simulate(experiment.trace, experiment.cluster, experiment.rules).jct

    def mean(self, at: int, policy: str = "adaptive", reporting: Reporting | None = None) -> float:
        return float(self.jct(at, policy, reporting).mean())

    def everyone(self) -> Iterator[float]:
        for at in range(len(self.traces)):
            yield self.mean(at, reporting=Reporting(1.0)) / self.mean(at, "srsf")

    def half(self) -> Iterator[float]:
        for at, seed in self.cases():
            yield self.mean(at, reporting=Reporting(0.5, seed=seed)) / self.mean(at)

    def half_of_las(self) -> Iterator[float]:
        best = [min(self._with(at, "las", each).mean() for each in FIXED) for at in range(len(self.traces))]
        for at, seed in self.cases():
            yield float(self.mean(at, reporting=Reporting(0.5, seed=seed)) / best[at])

    def wrong(self) -> Iterator[float]:
        for at, seed in self.cases():
            gain = self.mean(at) - self.mean(at, reporting=Reporting(1.0))
            yield (self.mean(at) - self.mean(at, reporting=Reporting(1.0, FACTOR, seed=seed))) / gain

    def lies(self, of_liars: bool) -> Iterator[float]:
        for at, seed in self.cases():
            some = liars(self.traces[at], Reporting(1.0, liars=LIARS, seed=seed)) == of_liars
            lied, honest = (self.jct(at, reporting=Reporting(1.0, liars=share, seed=seed)) for share in (LIARS, 0.0))
            yield float(lied[some].mean() / honest[some].mean())

    def cases(self) -> Iterator[tuple[int, int]]:
        return product(range(len(self.traces)), SEEDS)


def liars(trace: Trace, reporting: Reporting) -> Bools:
    """Return which jobs claim less than what is left, shape (jobs,)."""
    return np.array(reporting.claims(trace).part) < 1.0


def trace_of(folder: Path, name: str, seed: int, jobs: int | None) -> Trace:
    """Return a trace of a kind: that of a file, or one generated with another seed."""
    file, (short, long) = folder / f"{name}_seed{seed}.csv", SHAPES[name]
    found = (
        read_trace(file, CLUSTER.gpus)
        if file.exists()
        else paper_testbed(480, seed, short_shape=short, long_shape=long)
    )
    return found.first(jobs or len(found))


def measured(kind: Kind, only: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the mean and its standard error of each ratio, or of some."""
    found = {
        "all": kind.everyone(), "half": kind.half(), "half_las": kind.half_of_las(), "wrong": kind.wrong(),
        "honest": kind.lies(of_liars=False), "liars": kind.lies(of_liars=True),
    }  # fmt: skip
    return {name: mean_and_error(np.array(list(each))) for name, each in found.items() if name in (only or found)}


def mean_and_error(values: Floats) -> tuple[float, float]:
    return round(float(values.mean()), 3), round(float(values.std(ddof=1) / len(values) ** 0.5), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--traces", type=Path, default=beside, help=f"folder with the traces (default: {beside})")
    parser.add_argument("--jobs", type=int, help="take the first jobs of each trace only")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, metavar="N")
    parser.add_argument("--only", default="", help="of all,half,half_las,wrong,honest,liars (default: all of them)")
    parser.add_argument("--known", action="store_true")
    args = parser.parse_args()
    for name in KINDS:
        traces = (trace_of(args.traces, name, seed, args.jobs) for seed in args.seeds)
        found = measured(Kind(traces, args.known), [each for each in args.only.split(",") if each])
        print(json.dumps({"kind": name, **found}), flush=True)


if __name__ == "__main__":
    main()
