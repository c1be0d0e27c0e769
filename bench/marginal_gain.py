"""Sizes by marginal gain: time for a large cluster, and distance to the optimum on small ones. One core; prints JSON.

    python bench/marginal_gain.py [--jobs 4000] [--nodes 16000] [--cases 500] [--repeat 5]

large    jobs with random coefficients of equation 4 and up to 25 workers and 25 servers each, a node with 9.6 of each of two
         resources, of which a task takes 1 or 2; the speeds of all sizes are computed within the measured time, and `tasks` is what
         the jobs get together. In `resized` all jobs run at the sizes that they got and half of them have half the steps left.
         Seconds of this process on a processor.
small    2 to 4 jobs of up to 6 workers and 4 servers on 8 to 30 slots; sum of all seconds over that of the best of all sizes
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.scheduler.size.marginal_gain import ElasticJobs, allocate


def seconds_of(theta: Floats, steps: Floats, servers: int, workers: int) -> Floats:
    """Return the remaining seconds of jobs of equation 4 by size, shape (jobs, servers + 1, workers + 1)."""
    p, w = np.meshgrid(np.arange(servers + 1.0), np.arange(workers + 1.0), indexing="ij")
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = (1.0 / w, np.ones_like(w), w / p, w, p)
        step = sum(theta[:, at, None, None] * term for at, term in enumerate(terms))
    return np.asarray(np.where((p > 0) & (w > 0), steps[:, None, None] * step, np.inf))


def random_jobs(chance: np.random.Generator, count: int, servers: int, workers: int, resources: int) -> ElasticJobs:
    theta = chance.gamma(1.0, 1.0, (count, 5)) * (8.0, 0.3, 1.0, 0.02, 0.02)
    steps = 50.0 + chance.exponential(1000.0, count)
    return ElasticJobs(
        seconds=seconds_of(theta, steps, servers, workers),
        least=np.ones((count, 2), np.int64),
        most=np.tile([servers, workers], (count, 1)),
        demands=chance.integers(1, 3, (count, 2, resources)).astype(np.float64),
        current=np.zeros((count, 2), np.int64),
        resize_seconds=np.full(count, 60.0),
        uncertain=chance.random(count) < 0.2,
    )


def large(jobs: int, nodes: int, repeat: int) -> dict[str, Any]:
    taken, again, tasks = [], [], 0
    for seed in range(repeat):
        chance, capacity = np.random.default_rng(seed), np.full(2, 9.6 * nodes)
        begin = time.process_time()
        waiting = random_jobs(chance, jobs, 25, 25, 2)
        sizes = allocate(waiting, capacity)
        taken.append(time.process_time() - begin)
        tasks = max(tasks, int(sizes.sum()))
        half = np.where(np.arange(jobs) % 2, 0.5, 1.0)[:, None, None]
        begin = time.process_time()
        allocate(replace(waiting, seconds=waiting.seconds * half, current=sizes), capacity)
        again.append(time.process_time() - begin)
    return {"jobs": jobs, "nodes": nodes, "tasks": tasks, "seconds": _seconds(taken), "resized": _seconds(again)}


def _seconds(taken: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(taken), 3), "max": round(max(taken), 3)}


def small(cases: int) -> dict[str, Any]:
    ratios = []
    for seed in range(cases):
        chance = np.random.default_rng(seed)
        count = int(chance.integers(2, 5))
        jobs = replace(random_jobs(chance, count, 4, 6, 1), uncertain=np.zeros(count, np.bool_))
        capacity = int(chance.integers(jobs.demands.sum() + 1, jobs.demands.sum() + 22))
        ratios.append(_total(jobs, allocate(jobs, np.array([float(capacity)]))) / _least(jobs, capacity))
    return {
        "cases": cases,
        "mean": round(float(np.mean(ratios)), 5),
        "max": round(max(ratios), 5),
        "beyond_2%": int((np.array(ratios) > 1.02).sum()),
    }


def _total(jobs: ElasticJobs, sizes: Ints) -> float:
    return float(jobs.seconds[np.arange(len(jobs)), sizes[:, 0], sizes[:, 1]].sum())


def _least(jobs: ElasticJobs, capacity: int) -> float:
    """Return the least sum over all sizes, by what of one resource is left after each job."""
    best = {capacity: 0.0}
    for at in range(len(jobs)):
        further: dict[int, float] = {}
        for (p, w), seconds in np.ndenumerate(jobs.seconds[at]):
            need = int(p * jobs.demands[at, 0, 0] + w * jobs.demands[at, 1, 0])
            for left, before in best.items() if np.isfinite(seconds) else ():
                if need <= left and before + seconds < further.get(left - need, np.inf):
                    further[left - need] = before + seconds
        best = further
    return min(best.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("jobs", 4000), ("nodes", 16_000), ("cases", 500), ("repeat", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    report = {"machine": platform.machine(), "large": large(options.jobs, options.nodes, options.repeat)}
    print(json.dumps(report | {"small": small(options.cases)}, indent=1))


if __name__ == "__main__":
    main()
