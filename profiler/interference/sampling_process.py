"""A process that measures the samples of a calibration and prints them as rows of a table.

    python -m tiresias.profiler.interference.sampling_process PLAN

Its linear algebra has one thread (`environment`). Several threads of a step wait for each other actively, so beside other processes
a step of milliseconds takes up to 50 times as long, by chance of the kernel's scheduling; the processors of a job that is bound to
its own are not shared like that.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when the libraries are loaded


class SamplingPlan(NamedTuple):
    """What is measured.

    Attributes:
        cpu, memory: As `LoadLevels`.
        processors: Those of the socket.
        seconds: Of each measurement.
        repeat: Samples of each step and load.
        seed: Of their order.
    """

    cpu: tuple[float, ...]
    memory: tuple[float, ...]
    processors: tuple[int, ...]
    seconds: float
    repeat: int
    seed: int


def command(plan: SamplingPlan) -> list[str]:
    """Return the command line of the process."""
    return [sys.executable, "-m", "tiresias.profiler.interference.sampling_process", json.dumps(plan)]


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process."""
    return {**inherited, **dict.fromkeys(_THREADS, "1")}


def main() -> None:
    """Print a row for each sample."""
    from tiresias.profiler.interference import calibration
    from tiresias.profiler.interference.reference_steps import reference_steps

    plan = SamplingPlan(*json.loads(sys.argv[1]))
    os.sched_setaffinity(0, plan.processors)
    count, levels = len(plan.processors), calibration.LoadLevels(tuple(plan.cpu), tuple(plan.memory))
    bandwidth = calibration.memory_bandwidth(count, plan.seconds)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for seed in range(plan.seed, plan.seed + plan.repeat):
        steps = reference_steps(seed)
        for sample in calibration.samples(steps, levels, count, plan.seconds, seed, bandwidth):
            writer.writerow([f"{value:.6g}" for value in sample])
            sys.stdout.flush()  # what is measured is kept when the command is ended


if __name__ == "__main__":
    main()
