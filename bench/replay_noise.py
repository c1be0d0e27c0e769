"""How much the simulated mean JCT of a replay depends on a few hundredths of a second. Prints JSON.

    python bench/replay_noise.py SEED1.csv --policy las,adaptive [--count 9] [--time-scale 20] [--jobs N]

The same jobs are simulated several times as `tiresias sandbox replay` does for its `simulated_mean_jct`, with typical charges,
each time with every submission delayed by another random part of a tenth of a second of the replay's clock (--jitter). So much
differs from one replay to the next. Where jobs wait for hours it decides which of two long jobs runs first, and the mean JCT
follows: a ratio of simulated to measured of one replay has at least this noise.

plain              mean JCT without delays, seconds of the trace
mean               of the delayed ones
smallest, largest  of these, over their mean
deviation          standard deviation of one of them, over their mean
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tiresias.sandbox.replay import setup, simulated
from tiresias.sandbox.replay.setup import Options
from tiresias.sandbox.replay.simulated import Charges
from tiresias.simulator.trace import TraceJob, read_trace

TYPICAL = Charges(start=0.4, pause=0.6, resume=0.45, release=0.15, arrival=0.13)  # seconds of the replay's clock


def delayed(jobs: Sequence[TraceJob], seconds: float, seed: int) -> list[TraceJob]:
    """Return the jobs, each submitted up to `seconds` of the trace later."""
    dice = random.Random(seed)
    moved = [replace(job, submit_time=job.submit_time + dice.uniform(0.0, seconds)) for job in jobs]
    return sorted(moved, key=lambda job: job.submit_time)


def noise(policy: str, jobs: Sequence[TraceJob], options: Options, count: int, jitter: float) -> dict[str, float]:
    """Return the numbers of one policy. jitter: seconds of the replay's clock."""
    charges = Charges(*(options.time_scale * each for each in TYPICAL))
    trials = [delayed(jobs, jitter * options.time_scale, seed) for seed in range(count)]
    plain, *found = (simulated.mean_jct(policy, each, options, charges) or float("nan") for each in (jobs, *trials))
    mean = statistics.fmean(found)
    return {
        "plain": round(plain),
        "mean": round(mean),
        "smallest": round(min(found) / mean, 3),
        "largest": round(max(found) / mean, 3),
        "deviation": round(statistics.stdev(found) / mean, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--policy", default="slurm-fifo,slurm-backfill,las", help="default: %(default)s")
    parser.add_argument("--count", type=int, default=9)
    parser.add_argument(
        "--jitter", type=float, default=0.1, help="seconds of the replay's clock (default: %(default)s)"
    )
    parser.add_argument("--time-scale", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=0, help="the first ones only")
    args = parser.parse_args()
    options = Options(time_scale=args.time_scale, placement_effect=False)
    result: dict[str, dict[str, dict[str, float]]] = {}
    for file in args.traces:
        jobs = setup.take(read_trace(file, options.gpus).jobs(), args.jobs, 1.0)
        result[file.stem] = {
            name: noise(name, jobs, options, args.count, args.jitter) for name in args.policy.split(",")
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
