"""What a job that pushes as fast as it can costs another one on the same aggregator, as JSON.

    python bench/parameter_service_bursts.py [--phase-ms MS] [--mb MB] [--iterations N]

    alone    a steady job: 2 workers, a GPU phase of --phase-ms (a sleep), tensors of --mb MB
    flooded  beside a job of 4 times the tensors without any GPU phase, served by the work done for each
    slots    the same, with an execution cycle in which the flood has one slot

iteration_ms of the steady job: median and p95; `slowed` is the median against `alone`. `flood` counts the other job's iterations.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from typing import Any

from service_processes import AggregatorProcesses, EmulatedJob, run_jobs

from tiresias.services.parameter_service.messages.aggregator_messages import PlanCycle

WARM_UP = 3


def measured(args: argparse.Namespace, flood: bool, cycle_s: float = 0.0, work_s: float = 0.0) -> dict[str, Any]:
    block, phase_s = 1 << 20, args.phase_ms / 1e3
    count = max(int(args.mb), 1)
    with AggregatorProcesses(1, 64 * count * block) as service:
        sizes = {name: {f"t{at}": block for at in range(many * count)} for name, many in (("steady", 1), ("flood", 4))}
        names = ["steady", "flood"] if flood else ["steady"]
        jobs = []
        for name in names:
            identity = service.job(name, 2, dict.fromkeys(sizes[name], 0))
            jobs.append(EmulatedJob(identity, sizes[name], 2, phase_s if name == "steady" else 0.0))
        if cycle_s:
            runs = {"steady": 1.0, "flood": 1.0}
            service.request(0, PlanCycle(cycle_s, runs, {"steady": work_s, "flood": cycle_s - work_s}))
        found = run_jobs(jobs, args.iterations + WARM_UP)
        until = min(each[-1].end for each in found)
        steady = [each.end - each.begin for each in found[0][WARM_UP:] if each.end <= until]
        result = {
            "iterations": len(steady), "median": 1e3 * statistics.median(steady),
            "p95": 1e3 * sorted(steady)[min(int(0.95 * len(steady)), len(steady) - 1)],
            "work_s": sum(service.work("steady").values()),
        }  # fmt: skip
        return result | ({"flood": sum(each.end <= until for each in found[1])} if flood else {})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phase-ms", type=float, default=100.0, help="GPU phase of the steady job; 100")
    parser.add_argument("--mb", type=float, default=4.0, help="MB of its tensors; 4")
    parser.add_argument("--iterations", type=int, default=50, help="of each job; 50")
    args = parser.parse_args()
    result: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "load_before": os.getloadavg()[0]}
    alone = result["alone"] = measured(args, flood=False)
    result["flooded"] = measured(args, flood=True)
    result["slots"] = measured(args, flood=True, cycle_s=alone["median"] / 1e3, work_s=alone["work_s"])
    for name in ("flooded", "slots"):
        result[name]["slowed"] = result[name]["median"] / alone["median"]
    print(json.dumps(result | {"load_after": os.getloadavg()[0]}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
