"""Optimus against DRF and Tetris on a simulated testbed, as in section 6 of its paper (EuroSys '18). Prints JSON.

    python bench/optimus_testbed.py [--data ../shared/data] [--seeds 10] [--workload nine|poisson] [--only NAME[,NAME...]]

nine      9 jobs, submitted at random within 12,000 s, on 9 nodes of 3 tasks: as many tasks of 5 cores as the paper's servers have
poisson   100 jobs, 3 each 600 s in the mean, on 60 nodes of 3 tasks

A job is one of the models whose speeds are in DATA/optimus/dl2_measured_speeds.csv.gz, by the speed model that is fitted to all of
them; without the data, one of four synthetic models. It trains synchronously until its loss converges; thresholds are 1 to 5%.
Its steps are such that it takes 1 to 5 hours with one server and one worker. A change of size costs 30 s. Decisions are 600 s
apart. Optimus and Tetris have the predictions of the estimators: speed models fitted to 5 measured sizes with 3% of noise, and loss
curves with 1% of noise. Placements change the transfer time of a step (`simulator/elastic/server_training.py`).

Each variant has the mean over the seeds of mean JCT and makespan, hours, and its ratio to the first one, seed by seed, with the 95%
confidence interval of the mean (Student's t). `scaling` is the part of the GPU-seconds that changes of size cost.

drf, tetris              the baselines: a server for each worker; load balancing, packing
drf_sizes, tetris_sizes  their sizes with the placement of optimus
balanced, packed         the sizes of optimus with load balancing, packing
mxnet                    parameter blocks assigned as by MXNet, for the models whose blocks are in the data
sure                     no factor of 0.95 for uncertain predictions
exact, tetris_exact      optimus and tetris with true predictions; speed_20, convergence_10: off by that, of each size, of each job,
                         either way at random
fitted, sampled          predictions fitted to what the runs of the job have shown so far, as by the controller, with 3% of noise of
                         a step and 1% of a loss; sampled: each job is timed at up to 5 sizes of 60 s first. Neither knows a size in
                         advance. kind_sampled: runs of other jobs with the same model count, too. tetris_sampled: tetris so
product                  las, and marginal gain for the GPUs that it leaves; elastic_fifo: minimum_first
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import platform
import time
from collections import defaultdict
from dataclasses import replace
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.speed_forms import SYNCHRONOUS
from tiresias.scheduler.estimates.speed_model import fit
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import ClusterSize, Cost, ElasticJob, JobSize, Rules, Trace, TraceJob, simulate
from tiresias.simulator.elastic.run_measurements import RunMeasurements
from tiresias.simulator.elastic.server_training import (
    Estimated,
    ServerTraining,
    WithErrors,
    slowness,
)
from tiresias.simulator.elastic_job import Predict, Prediction, exact
from tiresias.simulator.experiments.confidence import mean_interval
from tiresias.simulator.simulated_convergence import SimulatedConvergence
from tiresias.simulator.simulated_placement import SimulatedPlacement

DATA = Path(__file__).parents[2] / "shared" / "data"
CLUSTERS = {"nine": ClusterSize(9, 3), "poisson": ClusterSize(60, 3)}
MOST_TASKS = 20  # of a job
SAMPLES = 5
BLOCKS = {"resnet-50": "resnet|50", "inception-bn": "inception-bn"}
INTERVAL_S, COST = 600.0, Cost(pause=10.0, resume=20.0)


class Variant(NamedTuple):
    """What is simulated; the defaults are optimus."""

    sizing: str = "marginal_gain"
    style: str = "even"
    policy: str = "best_effort"
    predictions: str = "estimated"  # estimated, sure, exact, speed_20, convergence_10, fitted
    balanced: bool = True
    samples: int = 0
    has_kinds: bool = False


VARIANTS = {
    "optimus": Variant(),
    "drf": Variant("drf", "load_balancing"),
    "tetris": Variant("tetris", "consolidate"),
    "drf_sizes": Variant("drf"),
    "tetris_sizes": Variant("tetris"),
    "balanced": Variant(style="load_balancing"),
    "packed": Variant(style="consolidate"),
    "mxnet": Variant(balanced=False),
    "sure": Variant(predictions="sure"),
    "exact": Variant(predictions="exact"),
    "tetris_exact": Variant("tetris", "consolidate", predictions="exact"),
    "speed_20": Variant(predictions="speed_20"),
    "convergence_10": Variant(predictions="convergence_10"),
    "fitted": Variant(predictions="fitted"),
    "sampled": Variant(predictions="fitted", samples=SAMPLES),
    "kind_sampled": Variant(predictions="fitted", samples=SAMPLES, has_kinds=True),
    "tetris_sampled": Variant("tetris", "consolidate", predictions="fitted", samples=SAMPLES),
    "product": Variant(policy="las"),
    "elastic_fifo": Variant("minimum_first"),
}


def trainings(data: Path, balanced: bool) -> list[ServerTraining]:
    """Return the models that jobs train."""
    folder = data / "optimus"
    if not (folder / "dl2_measured_speeds.csv.gz").exists():
        return [ServerTraining(fit(points, SYNCHRONOUS)) for points in synthetic()]
    known = json.loads(gzip.decompress((folder / "model_param_blocks.json.gz").read_bytes()))["models"]
    blocks = {
        model: next(tuple(sizes) for name, sizes in known.items() if name.startswith(beginning))
        for model, beginning in BLOCKS.items()
    }
    measured = defaultdict(list)
    with gzip.open(folder / "dl2_measured_speeds.csv.gz", "rt") as text:
        for row in csv.DictReader(text):
            batch = float(row["total_batch"])
            measured[row["model"]].append((int(row["ps"]), int(row["workers"]), batch, float(row["sum_speed"]) / batch))
    return [
        ServerTraining(fit(points, SYNCHRONOUS), points[0][2], blocks.get(model, ()), balanced)
        for model, points in measured.items()
    ]


def synthetic() -> list[Floats]:
    """Return points of four models whose steps are the sum of the terms of the paper's equation 4."""
    chance, found = np.random.default_rng(0), []
    p, w = (each.ravel().astype(np.float64) for each in np.meshgrid(np.arange(1, 13), np.arange(1, 13)))
    for _ in range(4):
        theta = chance.gamma(2.0, 0.5, 5) * (8.0, 0.5, 2.0, 0.05, 0.03)
        seconds = theta @ np.stack([1.0 / w, np.ones_like(w), w / p, w, p])
        found.append(np.stack([p, w, np.ones_like(p), 1.0 / seconds], axis=1))
    return found


def workload(kind: str, seed: int, variant: Variant, data: Path) -> Trace:
    """Return the jobs of a seed; the same for all variants but for their predictions."""
    chance, models = np.random.default_rng(seed), trainings(data, variant.balanced)
    nine = kind == "nine"
    submit = np.sort(chance.uniform(0, 12_000, 9)) if nine else np.cumsum(chance.exponential(200.0, 100))
    jobs = []
    for number, moment in enumerate(submit.tolist()):
        model = int(chance.integers(len(models)))
        training = models[model]
        convergence = SimulatedConvergence(
            chance.uniform(0.1, 1.0), chance.uniform(0.02, 0.3), chance.uniform(0.01, 0.05)
        )
        alone_s = 3600.0 * chance.uniform(1.0, 5.0)  # on one node
        predict = prediction(variant.predictions, training, convergence, 1000 * seed + number)
        elastic = ElasticJob(2, MOST_TASKS, 1, training.speed, True, predict, convergence)
        name = f"model {model}" if variant.has_kinds else ""
        jobs.append(TraceJob(str(number), moment, 2, alone_s, model=name, elastic=elastic))
        _ = training.speed(JobSize((2,), 1))
    return Trace.of(jobs)


def prediction(kind: str, training: ServerTraining, convergence: SimulatedConvergence, seed: int) -> Predict:
    """Return what is predicted of a job."""
    chance = np.random.default_rng(seed)
    if kind in ("exact", "fitted"):  # fitted ones replace it
        return exact
    if kind in ("speed_20", "convergence_10"):
        signs = chance.choice([-1.0, 1.0], (MOST_TASKS, MOST_TASKS))
        is_speed = kind == "speed_20"
        return WithErrors(signs * (0.2 * is_speed), float(chance.choice([-0.1, 0.1])) * (not is_speed))
    estimated = Estimated(slowness(training, MOST_TASKS, 5, 0.03, chance), convergence, usual=12.0, seed=seed)
    return estimated if kind == "estimated" else Sure(estimated)


class Sure:
    """The same predictions, none of them uncertain."""

    def __init__(self, predict: Predict) -> None:
        self._predict = predict

    def __call__(self, done: float, seconds: Floats) -> Prediction | None:
        found = self._predict(done, seconds)
        return found and found._replace(uncertain=False)


def run(task: tuple[str, str, int, Path]) -> tuple[str, int, dict[str, float]]:
    """Return the results of a variant and a seed."""
    kind, name, seed, data = task
    variant, cluster = VARIANTS[name], CLUSTERS[kind]
    trace = workload(kind, seed, variant, data)
    config = replace(PolicyConfig.paper(variant.policy), sizing=variant.sizing, size_samples=variant.samples)
    shown = RunMeasurements(seed=seed) if variant.predictions == "fitted" else None
    placement = SimulatedPlacement.named(variant.style)
    rules = Rules(
        POLICIES[variant.policy],
        config,
        COST,
        interval=INTERVAL_S,
        by_node=True,
        placement=placement,
        measurements=shown,
    )
    done = simulate(trace, cluster, rules)
    makespan = float(done.finish.max() - trace.submit[0])
    used = float(done.timeline.used[:-1] @ np.diff(done.timeline.time))
    return name, seed, {
        "jct": float(done.jct.mean()) / 3600.0,
        "makespan": makespan / 3600.0,
        "scaling": done.overhead / used,
        "resizes": float(done.resizes.mean()),
        "used": used / (cluster.gpus * makespan),
    }  # fmt: skip


def summary(runs: dict[str, dict[int, dict[str, float]]]) -> dict[str, Any]:
    """Return the means of each variant, and its ratios to the first one."""
    found, first = dict[str, Any](), next(iter(runs.values()))
    for name, seeds in runs.items():
        found[name] = {key: round(float(np.mean([each[key] for each in seeds.values()])), 4) for key in seeds[1]}
        for key in ("jct", "makespan"):
            ratios = np.array([each[key] / first[seed][key] for seed, each in seeds.items()])
            found[name][f"{key}_ratio"] = interval(ratios)
    return found


def interval(values: Floats) -> list[float]:
    """Return the mean, and the ends of its 95% confidence interval."""
    return [round(each, 3) for each in mean_interval(values)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workload", choices=tuple(CLUSTERS), default="nine")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(VARIANTS))
    options = parser.parse_args()
    began, runs = time.perf_counter(), {name: dict[int, dict[str, float]]() for name in options.only}
    seeds = range(1, options.seeds + 1)
    with Pool(2) as pool:
        tasks = [(options.workload, name, seed, options.data) for seed in seeds for name in options.only]
        for name, seed, result in pool.imap_unordered(run, tasks):
            runs[name][seed] = result
    head = {"machine": platform.machine(), "workload": options.workload, "seeds": options.seeds}
    head["measured_speeds"] = (options.data / "optimus").exists()
    print(json.dumps({**head, "seconds": round(time.perf_counter() - began), "variants": summary(runs)}, indent=1))


if __name__ == "__main__":
    main()
