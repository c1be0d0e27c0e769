"""How fast and how lean the simulator is, and whether it agrees with an independent one. Prints JSON.

    python bench/simulator.py [--traces DIR] [SECTION ...]

philly     the public trace of 111,539 jobs on 2,000 GPUs, las, from the file to every metric
growth     generated loads like Philly's of 10,000 jobs and more: seconds per event
million    one million generated jobs, las
reference  every policy on the public trace at 2,000 and 1,900 GPUs beside an independent exact simulator's mean JCT
adaptive   the policy adaptive beside others where a preemption costs 62 s at the next start, as in the paper's experiments: on
           the public trace beside srsf, on the paper's workload beside las of 3,200 GPU-s, on generated loads that it was not
           made with, and with several starve_limit
fixed      adaptive beside the best of 54 fixed settings of las, on every trace; half an hour

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

from fixed_settings import COST, FIRST_START, FIXED, LAS

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import ALL_POLICIES, Setup
from tiresias.simulator.generators import paper_testbed, philly_like
from tiresias.simulator.outcome_metrics import summary
from tiresias.simulator.simulation import simulate
from tiresias.simulator.trace import Trace, read_trace

TRACE = "philly_full.csv.gz"
HOUR = 3600.0
CLUSTERS = {2000: ClusterSize(250, 8), 1900: ClusterSize(475, 4)}
GROWTH = (10_000, 20_000, 40_000, 80_000, 160_000)

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

GPUS = {  # of the clusters that each trace is simulated on
    **{f"{family}_seed{seed}.csv": (60,) for family in ("testbed480", "testbed480cal") for seed in (1, 2, 3)},
    "alibaba_crux2023.csv": (800, 900, 1000, 1100, 1200),
    "alibaba_openb2023_gpu.csv.gz": (35, 40, 45, 48),
    TRACE: (2000,),
}
SHAPES = {"testbed480": (1.0, 1.0), "testbed480cal": (3.0, 0.75)}  # short and long jobs' distributions
NEW_SEEDS = range(101, 121)
STARVE_LIMITS = (4 * HOUR, 2 * HOUR, HOUR)

Numbers = dict[str, Any]


def philly(traces: Path) -> Numbers:
    return alone(_measure, partial(read_trace, traces / TRACE, 2000), "las", LAS, 2000)


def growth(traces: Path) -> list[Numbers]:
    return [alone(_measure, partial(philly_like, jobs), "las", LAS, 2000) for jobs in GROWTH]


def million(traces: Path) -> Numbers:
    return alone(_measure, partial(philly_like, 1_000_000), "las", LAS, 2000)


def reference(traces: Path) -> list[Numbers]:
    return [
        {"name": name, "gpus": gpus, **alone(_compare, traces / TRACE, policy, config, gpus, reference)}
        for name, (policy, config, means) in REFERENCE.items()
        if policy in ALL_POLICIES
        for gpus, reference in means.items()
    ]


def adaptive(traces: Path) -> Numbers:
    return {
        "philly": [
            alone(_on_load, partial(read_trace, traces / TRACE, gpus), gpus, ("srsf", "fifo"))
            for gpus in (2000, 1900, 1800)
        ],
        "testbed": {
            family: _on_testbed([read_trace(traces / f"{family}_seed{seed}.csv", 60) for seed in (1, 2, 3)])
            for family in SHAPES
        },
        "new seeds of testbed": {
            family: _on_testbed([paper_testbed(480, seed, short_shape=short, long_shape=long) for seed in NEW_SEEDS])
            for family, (short, long) in SHAPES.items()
        },
        "philly_like": [
            {
                "seed": seed,
                "load": load,
                **alone(_on_load, partial(philly_like, 20_000, seed, gpus=500, load=load), 500, ("srsf",)),
            }
            for seed in (1, 2)
            for load in (0.9, 1.0, 1.1)
        ],
    }


def fixed(traces: Path) -> list[Numbers]:
    return [alone(_beside_fixed, traces / name, gpus) for name, sizes in GPUS.items() for gpus in sizes]


SECTIONS: Mapping[str, Callable[[Path], Any]] = {
    "philly": philly,
    "growth": growth,
    "million": million,
    "reference": reference,
    "adaptive": adaptive,
    "fixed": fixed,
}
NEEDS_TRACE = ("philly", "reference", "adaptive", "fixed")
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
        "jobs": len(trace),
        "events": events,
        "cpu_seconds": round(over - began, 2),
        "load_seconds": round(loaded - began, 2),
        "simulate_seconds": round(simulated - loaded, 2),
        "microseconds_per_event": round((simulated - loaded) / events * 1e6, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "mean_jct": round(numbers["mean_jct"]),
        "preemptions": numbers["preemptions"],
    }


def _compare(file: Path, policy: str, config: PolicyConfig, gpus: int, reference: float) -> Numbers:
    found = _measure(partial(read_trace, file, gpus), policy, config, gpus)
    kept = {key: found[key] for key in ("mean_jct", "preemptions", "cpu_seconds")}
    return {**kept, "reference": reference, "ratio": round(found["mean_jct"] / reference, 5)}


def _on_load(load: Callable[[], Trace], gpus: int, others: tuple[str, ...]) -> Numbers:
    trace = load()
    adaptive, *rest = (_costly(trace, gpus, policy) for policy in ("adaptive", *others))
    return {"gpus": gpus, "adaptive": adaptive, **_beside(adaptive, dict(zip(others, rest, strict=True)))}


def _beside_fixed(file: Path, gpus: int) -> Numbers:
    trace = read_trace(file, gpus)
    mine, fifo = _costly(trace, gpus, "adaptive"), _costly(trace, gpus, "fifo")
    best = min((_costly(trace, gpus, "las", config) for config in FIXED), key=lambda found: found["mean_jct"])
    return {"trace": file.name, "gpus": gpus, "adaptive": mine, **_beside(mine, {"best las": best, "fifo": fifo})}


def _on_testbed(traces: list[Trace]) -> Numbers:
    """Means over the traces, 60 GPUs."""
    settings = {
        "starve_limit inf": LAS,
        **{f"starve_limit {limit:.0f}": replace(LAS, starve_limit=limit) for limit in STARVE_LIMITS},
    }
    others = {
        name: _mean([_costly(trace, 60, name, PolicyConfig.paper()) for trace in traces])
        for name in ("las", "srsf", "fifo")
    }
    found = {
        name: _mean([_costly(trace, 60, "adaptive", config) for trace in traces]) for name, config in settings.items()
    }
    return {**others, **{name: {**each, **_beside(each, others, whole=False)} for name, each in found.items()}}


def _costly(trace: Trace, gpus: int, policy: str, config: PolicyConfig = LAS) -> Numbers:
    experiment = Setup("", trace, ClusterSize(gpus, 1), config, COST).experiment(policy)
    found = summary(trace, experiment.cluster, simulate(experiment.trace, experiment.cluster, experiment.rules), 0.0)
    return {key: round(found[key], 1) for key in ("mean_jct", "p99_jct", "max_jct", "preemptions")}


def _mean(found: list[Numbers]) -> Numbers:
    return {key: round(sum(each[key] for each in found) / len(found), 1) for key in found[0]}


def _beside(mine: Numbers, others: Mapping[str, Numbers], whole: bool = True) -> Numbers:
    """`others` as they are, with `whole`, and what `mine` are in their units."""
    ratios = {
        f"{key} / {name}": round(mine[key] / each[key], 4)
        for name, each in others.items()
        for key in ("mean_jct", "p99_jct")
    }
    return {**(others if whole else {}), **ratios}


def alone(measure: Callable[..., Numbers], *args: Any) -> Numbers:
    """In a process of its own, so that its peak of memory is its own."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: sender.send(measure(*args)))
    process.start()
    sender.close()
    numbers: Numbers = receiver.recv()
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
