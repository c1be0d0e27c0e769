"""How fast and how lean the simulator is, and whether it agrees with an independent one. Prints JSON.

    python bench/simulator.py [--traces DIR] [SECTION ...]

philly     the public trace of 111,539 jobs on 2,000 GPUs, las, from the file to every metric
growth     generated loads like Philly's of 10,000 jobs and more: seconds per event
million    one million generated jobs, las
reference  every policy on the public trace at 2,000 and 1,900 GPUs beside an independent exact simulator's mean JCT

Without SECTION: philly and growth. Each measurement runs in a process of its own on one core. cpu_seconds are of the process, so
that other work on the machine counts little; peak_mb is all its memory, Python and numpy included.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster import Cluster
from tiresias.simulator.engine import simulate
from tiresias.simulator.experiment import ALL_POLICIES, Setup
from tiresias.simulator.generators import philly_like
from tiresias.simulator.metrics import summary
from tiresias.simulator.trace import Trace, read_trace

TRACE = "philly_full.csv.gz"
HOUR = 3600.0
CLUSTERS = {2000: Cluster(250, 8), 1900: Cluster(475, 4)}
GROWTH = (10_000, 20_000, 40_000, 80_000, 160_000)

LAS = replace(PolicyConfig.paper(), thresholds=(HOUR,))
FIRST_START = replace(LAS, in_queue_order="first_start")
FOUR_QUEUES = replace(LAS, thresholds=(HOUR, 10 * HOUR, 100 * HOUR, 1000 * HOUR))

# Mean JCT in seconds of an independent event-driven simulator: name -> (policy, config, by GPUs).
REFERENCE: Mapping[str, tuple[str, PolicyConfig, Mapping[int, float]]] = {
    "fifo": ("fifo", LAS, {2000: 60982, 1900: 117322}),
    "best_effort": ("best_effort", LAS, {2000: 46066, 1900: 57998}),
    "sf": ("sf", LAS, {2000: 36337}),
    "srtf": ("srtf", LAS, {2000: 36565, 1900: 37521}),
    "srsf": ("srsf", LAS, {2000: 35940, 1900: 36318}),
    "las 1 h, running first": ("las", LAS, {2000: 36935, 1900: 39569}),
    "las 1 h, first start": ("las", FIRST_START, {2000: 43638, 1900: 61290}),
    "las 1/10/100/1000 h, running first": ("las", FOUR_QUEUES, {2000: 36097, 1900: 36997}),
    "time_sharing 300 s": ("time_sharing", LAS, {2000: 37695, 1900: 41246}),
}

Numbers = dict[str, Any]


def philly(traces: Path) -> Numbers:
    return alone(_measure, partial(read_trace, traces / TRACE, 2000), "las", LAS, 2000)


def growth(traces: Path) -> list[Numbers]:
    return [alone(_measure, partial(philly_like, jobs), "las", LAS, 2000) for jobs in GROWTH]


def million(traces: Path) -> Numbers:
    return alone(_measure, partial(philly_like, 1_000_000), "las", LAS, 2000)


def reference(traces: Path) -> list[Numbers]:
    return [
        {"name": name, "gpus": gpus, **alone(_compare, traces / TRACE, policy, config, gpus, theirs)}
        for name, (policy, config, means) in REFERENCE.items()
        if policy in ALL_POLICIES
        for gpus, theirs in means.items()
    ]


SECTIONS: Mapping[str, Callable[[Path], Any]] = {
    "philly": philly, "growth": growth, "million": million, "reference": reference,
}  # fmt: skip
NEEDS_TRACE = ("philly", "reference")
DEFAULT = ("philly", "growth")


def _measure(load: Callable[[], Trace], policy: str, config: PolicyConfig, gpus: int) -> Numbers:
    """Of reading or generating, of simulating, and of all metrics."""
    began = time.process_time()
    trace = load()
    loaded = time.process_time()
    experiment = Setup("", trace, CLUSTERS[gpus], config).experiment(policy)
    outcome = simulate(experiment.trace, experiment.cluster, experiment.rules)
    simulated = time.process_time()
    numbers = summary(trace, experiment.cluster, outcome, simulated - loaded)
    over = time.process_time()
    events = 2 * len(trace) + 2 * int(numbers["preemptions"])  # arrivals and ends, preemptions and resumptions
    return {
        "jobs": len(trace), "events": events, "cpu_seconds": round(over - began, 2),
        "load_seconds": round(loaded - began, 2), "simulate_seconds": round(simulated - loaded, 2),
        "microseconds_per_event": round((simulated - loaded) / events * 1e6, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "mean_jct": round(numbers["mean_jct"]), "preemptions": numbers["preemptions"],
    }  # fmt: skip


def _compare(file: Path, policy: str, config: PolicyConfig, gpus: int, theirs: float) -> Numbers:
    found = _measure(partial(read_trace, file, gpus), policy, config, gpus)
    kept = {key: found[key] for key in ("mean_jct", "preemptions", "cpu_seconds")}
    return {**kept, "reference": theirs, "ratio": round(found["mean_jct"] / theirs, 5)}


def alone(measure: Callable[..., Numbers], *args: Any) -> Numbers:
    """In a process of its own, so that its peak of memory is its own."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: theirs.send(measure(*args)))
    process.start()
    theirs.close()
    numbers: Numbers = ours.recv()
    process.join()
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--traces", type=Path, default=beside, help=f"folder with {TRACE} (default: {beside})")
    parser.add_argument("section", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    args = parser.parse_args()
    if unknown := {*args.section} - {*SECTIONS}:
        parser.error(f"{', '.join(unknown)}: no such section; there are {', '.join(SECTIONS)}")
    there = (args.traces / TRACE).exists()
    result = {
        name: SECTIONS[name](args.traces)
        if there or name not in NEEDS_TRACE
        else f"skipped: no {TRACE} in {args.traces}"
        for name in args.section or DEFAULT
    }
    print(json.dumps({"machine": platform.processor() or platform.machine(), **result}, indent=2))


if __name__ == "__main__":
    main()
