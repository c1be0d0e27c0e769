"""What `starve_limit`, `min_run_cost_factor` and `target_slowdown` cost: several values of each, a JSON line a run.

    python bench/starvation.py [--traces DIR] [--policy las,adaptive] [--factors | --slowdowns] [--starve-factor X] [TRACE ...]

A preemption costs 62 s at the next start, the paper's mean. Times in seconds. longest_wait: of the job that waited most, all its
waiting times and preemption costs together. `--factors` varies min_run_cost_factor in place of starve_limit, `--slowdowns`
target_slowdown, which `adaptive` alone has. `--starve-factor`: in place of the default, of all runs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.outcome_metrics import queueing, summary
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import read_trace

HOUR = 3600.0
LIMITS = (*(hours * HOUR for hours in (6, 12, 24, 48, 96, 168)), math.inf)
FACTORS = (0.0, 1.0, 2.0, 5.0, 10.0)
SLOWDOWNS = (math.inf, 30.0, 10.0, 5.0, 3.0, 2.0, 1.0)
COST = Cost(resume=62.0)  # 13,724 s for 221 preemptions, section 5.2
GPUS = {  # of the clusters that each trace is simulated on
    **{f"testbed480{kind}_seed{seed}.csv": (60,) for kind in ("", "cal") for seed in (1, 2, 3)},
    "traces/helios_venus_may28_a.csv.gz": (416, 280),
    "traces/helios_venus_may28_b.csv.gz": (344, 280),
    "philly_full.csv.gz": (2000, 1900, 1800),
}


def runs(usual: PolicyConfig, factors: bool, slowdowns: bool) -> Iterator[tuple[str, PolicyConfig]]:
    if slowdowns:
        yield from ((f"target_slowdown {each:g}", replace(usual, target_slowdown=each)) for each in SLOWDOWNS)
    elif factors:
        yield from (
            (f"min_run_cost_factor {factor:g}", replace(usual, min_run_cost_factor=factor)) for factor in FACTORS
        )
    else:
        yield from ((f"starve_limit {limit / HOUR:g} h", replace(usual, starve_limit=limit)) for limit in LIMITS)


def measured(file: Path, gpus: int, policy: str, config: PolicyConfig) -> dict[str, float]:
    trace = read_trace(file, gpus)
    experiment = Setup("", trace, ClusterSize(gpus, 1), config, COST).experiment(policy)
    outcome = simulate(experiment.trace, experiment.cluster, experiment.rules)
    found = summary(trace, experiment.cluster, outcome, 0.0)
    kept = {key: round(found[key], 1) for key in ("mean_jct", "p99_jct", "preemptions")}
    return kept | {"longest_wait": round(float(queueing(trace, outcome).max()), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--traces", type=Path, default=beside, help=f"folder with the traces (default: {beside})")
    parser.add_argument("--policy", default="las,adaptive")
    parser.add_argument("--factors", action="store_true")
    parser.add_argument("trace", nargs="*", metavar="TRACE", help=", ".join(GPUS))
    parser.add_argument("--slowdowns", action="store_true", help="vary target_slowdown, and not starve_limit")
    parser.add_argument("--starve-factor", type=float, default=PolicyConfig.starve_factor)
    args = parser.parse_args()
    usual = PolicyConfig(starve_factor=args.starve_factor)
    for name in args.trace or GPUS:
        for gpus in GPUS[name]:
            for policy in args.policy.split(","):
                for label, config in runs(usual, args.factors, args.slowdowns):
                    found = measured(args.traces / name, gpus, policy, config)
                    print(
                        json.dumps({"trace": name, "gpus": gpus, "policy": policy, "with": label, **found}), flush=True
                    )


if __name__ == "__main__":
    main()
