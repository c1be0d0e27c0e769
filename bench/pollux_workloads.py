"""Mean JCT on the workloads of Pollux' artifact, beside what its own simulator found for three schedulers. Prints JSON.

    python bench/pollux_workloads.py [WORKLOADS] [--data ../shared/data/optimus] [--schedules tiresias,optimus,weighted_gain]

WORKLOADS is a file like adaptdl_workloads_jct.csv.gz, the default, in the folder of the data. `recorded` are Pollux' own results,
means over the jobs in seconds; `here` the ones of the schedules of `simulator/pollux_replay/elastic_replay.py`, `ratio` of the two
schedulers that both have; `per_job` is the median over the jobs of the larger of both times over the smaller one.
A schedule takes 2 to 60 seconds for each of the 16 workloads; optimus about 10 minutes of processor time at loads 1.5 and 2.0.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.simulator.experiments.experiment import run_tasks
from tiresias.simulator.pollux_replay.batch_progress import read_batch_progress
from tiresias.simulator.pollux_replay.elastic_replay import SCHEDULES, Measurements, replayed
from tiresias.simulator.pollux_replay.measured_steps import read_measured_steps
from tiresias.simulator.pollux_replay.workloads import Workload, read_workloads

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "optimus"


def result(workload: Workload, measured: Measurements, name: str) -> dict[str, Any]:
    """Return the results of one schedule."""
    outcome = replayed(workload, measured, SCHEDULES[name])
    found: dict[str, Any] = {
        "mean_jct": round(float(outcome.jct.mean())),
        "preemptions": int(outcome.preemptions.sum()),
        "resizes": int(outcome.resizes.sum()),
    }
    if name in workload.recorded:
        apart = np.abs(np.log(outcome.jct / workload.recorded[name]))
        found["ratio"] = round(float(outcome.jct.mean() / workload.recorded[name].mean()), 3)
        found["per_job"] = round(float(np.exp(np.median(apart))), 3)
    return found


def row(workload: Workload, measured: Measurements, schedules: list[str]) -> dict[str, Any]:
    """Return the results of one workload."""
    recorded = {name: round(float(each.mean())) for name, each in workload.recorded.items()}
    here = {name: result(workload, measured, name) for name in schedules}
    return {
        "load": workload.load,
        "workload": workload.number,
        "jobs": len(workload.name),
        "recorded": recorded,
        "here": here,
    }


def by_load(rows: list[dict[str, Any]], schedules: list[str]) -> list[dict[str, Any]]:
    """Return the means over the workloads of each load."""
    found = []
    for load in sorted({each["load"] for each in rows}):
        some = [each for each in rows if each["load"] == load]
        recorded = {name: round(np.mean([each["recorded"][name] for each in some])) for name in some[0]["recorded"]}
        here = {name: round(np.mean([each["here"][name]["mean_jct"] for each in some])) for name in schedules}
        found.append({"load": load, "recorded": recorded, "here": here})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=Path, nargs="?", metavar="WORKLOADS")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    args = parser.parse_args()
    schedules = args.schedules.split(",")
    measured = Measurements(
        read_measured_steps(args.data / "adaptdl_aws_steps.csv.gz"),
        read_batch_progress(args.data / "adaptdl_validation.csv.gz"),
    )
    workloads = read_workloads(args.workloads or args.data / "adaptdl_workloads_jct.csv.gz")
    tasks = {
        f"{each.load:g}-{each.number}": (len(each.name), lambda _, each=each: row(each, measured, schedules))
        for each in workloads
    }
    rows = list(run_tasks(tasks).values())
    print(json.dumps({"by_load": by_load(rows, schedules), "workloads": rows}, indent=1))


if __name__ == "__main__":
    main()
