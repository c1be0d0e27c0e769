"""The policies beside each other with the product's defaults, at several costs of a preemption; rows of a Markdown table.

    python bench/policies.py [--traces DIR] [TRACE ...]

A preemption costs that many seconds at the next start. Of each policy: mean, median and 95th percentile of JCT in seconds;
the longest wait, preemption costs included, in hours.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.outcome_metrics import queueing, summary
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace, read_trace

POLICIES = ("adaptive", "las", "gittins", "best_effort")
COSTS = (0.0, 30.0, 120.0)  # seconds
GPUS = {  # of the cluster that each trace is simulated on
    **{f"testbed480_seed{seed}.csv": 60 for seed in (1, 2, 3)},
    **{f"testbed480cal_seed{seed}.csv": 60 for seed in (1, 2, 3)},
    "alibaba_crux2023.csv": 1000,
    "alibaba_openb2023_gpu.csv.gz": 40,
    "traces/helios_venus_may28_a.csv.gz": 416,
    "traces/helios_venus_may28_b.csv.gz": 344,
    "philly_full.csv.gz": 2000,
}


def rows(name: str, trace: Trace, gpus: int) -> Iterator[str]:
    for cost in COSTS:
        cells = (
            cell(Setup("", trace, ClusterSize(gpus, 1), PolicyConfig(), Cost(resume=cost)), name) for name in POLICIES
        )
        yield " | ".join([f"| {name}, {gpus}", f"{cost:g}", *cells]) + " |"


def cell(setup: Setup, policy: str) -> str:
    experiment = setup.experiment(policy)
    outcome = simulate(experiment.trace, experiment.cluster, experiment.rules)
    found = summary(setup.trace, experiment.cluster, outcome, 0.0)
    times = [f"{found[key]:,.0f}" for key in ("mean_jct", "median_jct", "p95_jct")]
    return " / ".join([*times, f"{queueing(setup.trace, outcome).max() / 3600:,.1f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--traces", type=Path, default=beside, help=f"folder with the traces (default: {beside})")
    parser.add_argument("trace", nargs="*", metavar="TRACE", help=", ".join(GPUS))
    args = parser.parse_args()
    print(" | ".join(["| trace, GPUs", "cost", *(f"`{policy}`" for policy in POLICIES)]) + " |")
    print("|---" * (2 + len(POLICIES)) + "|")
    for name in args.trace or GPUS:
        trace = read_trace(args.traces / name, GPUS[name])
        for row in rows(name.rpartition("/")[2].partition(".")[0], trace, GPUS[name]):
            print(row, flush=True)


if __name__ == "__main__":
    main()
