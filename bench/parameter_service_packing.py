"""Parameter servers that a shared parameter service saves: AutoPS' rows, and a cluster of 2,000 GPUs. Prints JSON.

    python bench/parameter_service_packing.py [--trace TRACE.csv.gz] [--gpus 2000] [--first N] [--period 600] [--seed 1]

rows     Groups of equal jobs (figure 4.9, table 4.4 of the thesis): aggregators by pseudocode 3, with the limit of bursts, and
         after the feedback on the losses that the thesis measured: AlexNet 22% where it shares, the others 9% at most. The
         feedback reverts one job once.
cluster  The trace under first in, first out. Each job with several GPUs uses the service from its start to its end: one worker for
         each 4 GPUs and as many servers, a model drawn at random. For `--profile` seconds it has aggregators of its own. `saved` is
         the part of the servers' time that is not allocated; `below_1` the part of the minutes with running jobs in which fewer
         aggregators are allocated than the jobs declared servers, `below_1_busy` of those with 10 servers and more; `worst` the
         largest ratio of a minute.

Assumptions, as the thesis prints no profile. Sizes and numbers of tensors are those of table 4.2. The time of an iteration without
aggregation: VGG19 0.525 s and AlexNet 0.171 s (simulator/models.py, published throughput of one P100), AWD-LM 0.4 s and BERT 0.9 s
(chosen here). VGG19 with one server and 2 workers uses 16% of it: its work is 16% of an iteration, which is the computation and the
work. Work is in proportion to megabytes and workers, which gives that of all models. An iteration with s servers takes the
computation and the work / s: no part of them overlaps. The largest tensors are as in simulator/models.py, those of AWD-LM and BERT
a third of the model (the embedding) and 10%; the rest of a model is in equal tensors. PAA splits them.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.services.parameter_service.assignment.aggregator_clusters import PERIOD_S, AggregatorClusters
from tiresias.services.parameter_service.assignment.aggregator_pool import AggregatorPool
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules, NoAggregatorLeft
from tiresias.services.parameter_service.assignment.job_work import JobWork
from tiresias.services.parameter_service.assignment.loss_feedback import MONITORED_ITERATIONS, LossFeedback, LossVerdict
from tiresias.services.parameter_service.assignment.tensor_blocks import blocks_of, work_of_blocks
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import read_trace

GPUS_PER_WORKER = 4
VGG19_BUSY, VGG19_WORKERS = 0.16, 2  # of one server (figure 4.2)
PARAMETERS_PER_MB = 250_000
BUSY_SERVERS = 10


class TrainedModel(NamedTuple):
    """A model of table 4.2.

    Attributes:
        tensors: Number of tensors.
        size: MB.
        largest: MB of the largest tensor.
        compute_s: Seconds of an iteration without aggregation.
        shared_loss: The loss that the thesis measured where it shares aggregators.
        reduction: CPU reduction ratio of 2 x (4s-4w) in table 4.4.
    """

    tensors: int
    size: float
    largest: float
    compute_s: float
    shared_loss: float
    reduction: float


MODELS = {
    "AlexNet": TrainedModel(17, 236, 144, 0.171, 0.22, 0.375),
    "VGG19": TrainedModel(39, 548, 392, 0.525, 0.09, 0.5),
    "AWD-LM": TrainedModel(14, 396, 132, 0.4, 0.09, 0.5),
    "BERT": TrainedModel(393, 1278, 128, 0.9, 0.09, 0.5),
}
_VGG19 = MODELS["VGG19"]
WORK_PER_MB_S = _VGG19.compute_s * VGG19_BUSY / (1 - VGG19_BUSY) / _VGG19.size / VGG19_WORKERS  # for each worker


def job_work(job: str, name: str, servers: int, workers: int) -> JobWork:
    model = MODELS[name]
    rest = (model.size - model.largest) / (model.tensors - 1)
    sizes = {f"{at}": int((rest if at else model.largest) * PARAMETERS_PER_MB) for at in range(model.tensors)}
    work_s = {tensor: size / PARAMETERS_PER_MB * WORK_PER_MB_S * workers for tensor, size in sizes.items()}
    iteration_s = model.compute_s + sum(work_s.values()) / servers
    return JobWork(job, iteration_s, servers, work_of_blocks(blocks_of(sizes, servers), work_s))


# rows of the thesis


def rows() -> dict[str, Any]:
    found = {}
    for name, jobs, servers in [
        *((name, 2, 4) for name in MODELS),
        *((name, 2, 2) for name in MODELS),
        ("VGG19", 4, 2),
    ]:
        without, pool = (
            pool_of(name, jobs, servers, rules) for rules in (AssignmentRules(burst_factor=math.inf), AssignmentRules())
        )
        row: dict[str, Any] = {
            "servers": jobs * servers,
            "pseudocode": len(without.loads),
            "with_bursts": len(pool.loads),
        }
        reverted(pool, name)
        row |= {"with_feedback": len(pool.loads), "reduction": 1 - len(pool.loads) / (jobs * servers)}
        row["expected_loss"] = round(max(map(pool.loss, pool.jobs)), 4)
        paper = {4: MODELS[name].reduction, 2: {("VGG19", 4): 0.75, ("AlexNet", 2): 0.25}.get((name, jobs))}[servers]
        found[f"{jobs} x {name} {servers}s-{servers}w"] = row | {"thesis_reduction": paper}
    return found


def pool_of(name: str, jobs: int, servers: int, rules: AssignmentRules) -> AggregatorPool:
    pool = AggregatorPool(rules, most=jobs * servers)
    for at in range(jobs):
        pool.arrive(job_work(f"{name}-{at}", name, servers, servers))
    return pool


def reverted(pool: AggregatorPool, name: str) -> None:
    """Revert the last job if the loss that the thesis measured is above the limit."""
    job = list(pool.jobs)[-1]
    feedback = LossFeedback(pool.jobs[job].iteration_s)
    slowed_s = pool.jobs[job].iteration_s / (1 - MODELS[name].shared_loss)
    if [feedback.observe(slowed_s) for _ in range(MONITORED_ITERATIONS)][-1] is LossVerdict.REVERT:
        pool.revert(job)


# the cluster


class Run(NamedTuple):
    """A run of a job with several GPUs."""

    start_s: float
    end_s: float
    job: str
    gpus: int


def runs_of(options: argparse.Namespace, bar: Progress) -> list[Run]:
    trace = read_trace(options.trace, gpus=options.gpus)
    trace = trace.first(options.first) if options.first else trace
    task = bar.add_task("schedule", total=len(trace))
    rules = Rules(POLICIES["fifo"], PolicyConfig(name="fifo"))
    outcome = simulate(
        trace, ClusterSize(options.gpus // 8, 8), rules, lambda completed: bar.update(task, completed=completed)
    )
    bar.update(task, completed=len(trace))
    columns = (outcome.start.tolist(), outcome.finish.tolist(), trace.job_id, trace.gpus.tolist())
    return sorted(Run(*row) for row in zip(*columns, strict=True) if row[3] > 1)


def events_of(runs: list[Run], profile_s: float) -> Iterator[tuple[float, int, int]]:
    """Yield (second, kind, run): 0 ends a run, 1 begins its profile, 2 begins its assignment."""
    events = []
    for at, run in enumerate(runs):
        events += [(run.end_s, 0, at), (run.start_s, 1, at)]
        if run.start_s + profile_s < run.end_s:
            events.append((run.start_s + profile_s, 2, at))
    heapq.heapify(events)
    while events:
        yield heapq.heappop(events)


class SharedService:
    """The service over the time of the trace: integrals, and one sample a minute."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.clusters = AggregatorClusters(AssignmentRules(), 10**6, options.cluster, options.period, options.repack)
        self._reverts = options.reverts
        self.now_s, self.required, self.profiled = 0.0, 0, 0
        self.required_s = self.allocated_s = 0.0
        self.ratios: list[float] = []
        self.required_each_minute: list[int] = []
        self.reverted = 0

    def advance(self, moment_s: float) -> None:
        """Pass the time up to a moment: scalings, samples and integrals."""
        while self.now_s < moment_s:
            minute = math.floor(self.now_s / 60 + 1) * 60.0
            after = min(minute, moment_s)
            self.required_s += (after - self.now_s) * self.required
            self.allocated_s += (after - self.now_s) * (self.clusters.allocated + self.profiled)
            self.now_s = after
            if after == minute and self.required:
                self.ratios.append((self.clusters.allocated + self.profiled) / self.required)
                self.required_each_minute.append(self.required)
            self.clusters.scale_if_due(self.now_s)

    def assign(self, work: JobWork, chance: random.Random) -> None:
        self.clusters.arrive(work)
        if chance.random() < self._reverts:
            try:
                self.clusters.revert(work.job)
                self.reverted += 1
            except NoAggregatorLeft:
                pass


def cluster(options: argparse.Namespace) -> dict[str, Any]:
    with Progress(console=Console(stderr=True)) as bar:
        runs = runs_of(options, bar)
        chance, began = random.Random(options.seed), time.process_time()
        models = [chance.choice(list(MODELS)) for _ in runs]
        servers = [-(-run.gpus // GPUS_PER_WORKER) for run in runs]
        service, assigned = SharedService(options), set[int]()
        task = bar.add_task("parameter service", total=len(runs))
        for moment_s, kind, at in events_of(runs, options.profile):
            service.advance(moment_s)
            if kind == 1:
                service.required, service.profiled = service.required + servers[at], service.profiled + servers[at]
            elif kind == 2:
                service.profiled -= servers[at]
                assigned.add(at)
                service.assign(job_work(runs[at].job, models[at], servers[at], servers[at]), chance)
            elif at in assigned:
                service.required -= servers[at]
                service.clusters.end(runs[at].job)
            else:
                service.required, service.profiled = service.required - servers[at], service.profiled - servers[at]
            bar.advance(task, kind == 0)
    return report(service, len(runs)) | {"seconds": round(time.process_time() - began, 1)}


def report(service: SharedService, jobs: int) -> dict[str, Any]:
    ratios, busy = np.array(service.ratios), np.array(service.required_each_minute) >= BUSY_SERVERS
    return {
        "jobs": jobs,
        "minutes": len(ratios),
        "server_years": round(service.required_s / 31_536_000, 2),
        "saved": round(1 - service.allocated_s / service.required_s, 4),
        "below_1": round(float((ratios < 1).mean()), 5),
        "at_most_1": round(float((ratios <= 1).mean()), 5),
        "busy_minutes": int(busy.sum()),
        "below_1_busy": round(float((ratios[busy] < 1).mean()), 5),
        "ratio": {f"p{p}": round(float(np.percentile(ratios, p)), 3) for p in (1, 25, 50, 75, 99)},
        "worst": round(float(ratios.max()), 3),
        "reverted": service.reverted,
        "thesis": {"saved": 0.527, "below_1": 0.99},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="the trace of `cluster`, which is left out without it")
    parser.add_argument("--gpus", type=int, default=2000)
    parser.add_argument("--first", type=int, help="only the first jobs of the trace")
    parser.add_argument("--period", type=float, default=PERIOD_S, help="seconds between two scalings")
    parser.add_argument("--profile", type=float, default=60.0, help="seconds with aggregators of its own for each job")
    parser.add_argument("--cluster", type=int, default=32, help="aggregators of a cluster")
    parser.add_argument(
        "--repack", action="store_true", help="scalings pack clusters anew; otherwise they empty aggregators"
    )
    parser.add_argument("--reverts", type=float, default=0.0, help="the share of jobs that are reverted once")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = {"rows": rows()} | ({"cluster": cluster(options)} if options.trace else {})
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
