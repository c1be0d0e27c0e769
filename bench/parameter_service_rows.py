"""Rows of AutoPS' evaluation on real aggregators, as JSON: what jobs lose that share aggregators, and how many they need.

    python bench/parameter_service_rows.py [--rows ROW ...] [--scale F] [--stretch auto|F] [--gpu-phase sleep|matmul]
                                           [--iterations N] [--against alone|apart] [--seed N]

For each row:
    alone    one job on as many aggregators of its own as it declares servers: its profile, the seconds of an iteration and the CPU
             seconds of each block as the aggregator has measured them
    apart    all jobs at once, each on aggregators of its own: what the machine itself costs them
    shared   all jobs at once on the aggregators to which the product's assignment packs them by the profile. A job that loses 10%
             or more of its speed in this run is reverted as the manager does it, and the run is repeated: `rounds` has each. The
             loss is that against `alone`, as the manager measures it, or with --against apart what sharing adds on this machine.
`loss` is 1 - alone / measured, by the mean of the iterations; `loss_to_apart` is the part that is due to the sharing. A machine
with fewer cores than the workers and servers of a row shows what its cores cost, not the service: compare with `apart` there.

Workers are processes. Their GPU phase is a sleep of the measured length, or kernels on a real GPU (gpu_phases.py); gradients are
pushed after it, no part of both overlaps. Sizes are those of table 4.2, GPU phases those of parameter_service_packing.py. Both
are multiplied by --scale. An aggregator here has one core and TCP, the thesis' servers more cores and RDMA: with --stretch auto,
the GPU phases are in addition multiplied by the one factor by which VGG19 with one server and 2 workers uses 16% of it (figure
4.2 of the thesis). --stretch 1 multiplies both by --scale alone. The output has both factors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpu_phases import GpuPhases
from service_processes import AggregatorProcesses, EmulatedJob, Phase, run_jobs, seconds_of_iterations

from tiresias.services.parameter_service.assignment.aggregator_pool import AggregatorPool
from tiresias.services.parameter_service.assignment.assignment_rules import LOSS_LIMIT, AssignmentRules
from tiresias.services.parameter_service.assignment.job_work import JobWork
from tiresias.services.parameter_service.assignment.tensor_blocks import TensorBlock, blocks_of

WARM_UP = 10
MAX_ROUNDS = 4
VGG19_BUSY = 0.16


class MeasuredModel(NamedTuple):
    """A model: tensors, MB and MB of the largest tensor (table 4.2), seconds of the GPU phase."""

    tensors: int
    size: float
    largest: float
    gpu_phase_s: float


MODELS = {
    "AlexNet": MeasuredModel(17, 236, 144, 0.171),
    "VGG19": MeasuredModel(39, 548, 392, 0.525),
    "AWD-LM": MeasuredModel(14, 396, 132, 0.4),
    "BERT": MeasuredModel(393, 1278, 128, 0.9),
}


class Row(NamedTuple):
    """A row of the thesis: equal jobs, their servers (as many workers), its CPU reduction ratio."""

    model: str
    jobs: int
    servers: int
    reduction: float


ROWS = {
    "4xVGG19-2s2w": Row("VGG19", 4, 2, 0.75),
    **{f"2x{name}-4s4w": Row(name, 2, 4, 0.375 if name == "AlexNet" else 0.5) for name in MODELS},
    "2xAlexNet-2s2w": Row("AlexNet", 2, 2, 0.25),
    "2xVGG19-2s2w": Row("VGG19", 2, 2, 0.5),
}


class Scales(NamedTuple):
    """The factors of the tensors' bytes and of the GPU phases."""

    bytes: float
    gpu_phase: float


def blocks_of_model(name: str, servers: int, scales: Scales) -> list[TensorBlock]:
    model = MODELS[name]
    rest = (model.size - model.largest) / (model.tensors - 1)
    sizes = {f"t{at}": (rest if at else model.largest) * scales.bytes * 250_000 for at in range(model.tensors)}
    return blocks_of({tensor: max(int(size), 1) for tensor, size in sizes.items()}, servers)


class Measurement:
    """Runs jobs of one model on aggregators.

    Args:
        row: What is run.
        scales: The factors.
        iterations: Of each run, after the warm-up.
        phases: The GPU phases of the workers; none for sleeps.
        seed: Of the jobs' offsets.
    """

    def __init__(
        self, row: Row, scales: Scales, iterations: int, phases: Sequence[Phase] = (), seed: int = 1, servers: int = 0
    ) -> None:
        self._row, self._iterations, self._phases = row, iterations, phases
        self._servers = servers or row.servers
        self._blocks = blocks_of_model(row.model, self._servers, scales)
        self._phase_s = MODELS[row.model].gpu_phase_s * scales.gpu_phase
        self._random = random.Random(seed)
        self.profile: JobWork | None = None

    @property
    def phase_s(self) -> float:
        return self._phase_s

    def alone(self) -> JobWork:
        """Measure the profile of one job."""
        found, work = self._run([{each.name: each.server for each in self._blocks}])
        self.profile = JobWork("alone", found[0], self._servers, work)
        return self.profile

    def apart(self) -> list[float]:
        places = [
            {each.name: job * self._servers + each.server for each in self._blocks} for job in range(self._row.jobs)
        ]
        return self._run(places)[0]

    def shared(self, pool: AggregatorPool) -> list[float]:
        assigned = pool.assignment()
        numbers = {number: at for at, number in enumerate(sorted(set(assigned.values())))}
        return self._run(
            [{block: numbers[n] for (name, block), n in assigned.items() if name == job} for job in pool.jobs]
        )[0]

    def _run(self, places: list[dict[str, int]]) -> tuple[list[float], dict[str, float]]:
        sizes = {each.name: each.size * 4 for each in self._blocks}
        count = max(max(each.values()) for each in places) + 1
        needed = len(places) * sum(sizes.values()) * (4 + self._row.servers)
        with AggregatorProcesses(count, needed) as service:
            jobs = [
                EmulatedJob(
                    service.job(f"job-{at}", self._row.servers, placed), sizes, self._row.servers, self._phase_s,
                    self._random.random() * self._phase_s,
                )
                for at, placed in enumerate(places)
            ]  # fmt: skip
            found = run_jobs(jobs, self._iterations + WARM_UP, self._phases)
            return seconds_of_iterations(found, WARM_UP), service.work("job-0")


def stretch(scale: float, iterations: int) -> float:
    """Return the factor of GPU phases by which VGG19 with one server and 2 workers keeps it 16% busy."""
    measurement = Measurement(Row("VGG19", 1, 2, 0.0), Scales(scale, scale), iterations, servers=1)
    work = measurement.alone()
    rest_s = work.iteration_s - measurement.phase_s
    return max(work.work_s / VGG19_BUSY - rest_s, measurement.phase_s) / measurement.phase_s


def measured(row: Row, scales: Scales, args: argparse.Namespace, phases: Sequence[Phase]) -> dict[str, Any]:
    measurement = Measurement(row, scales, args.iterations, phases, args.seed)
    work = measurement.alone()
    apart = measurement.apart()
    pool = AggregatorPool(AssignmentRules(), most=row.jobs * row.servers)
    for at in range(row.jobs):
        pool.arrive(_named(work, f"job-{at}"))
    rounds = []
    while len(rounds) < MAX_ROUNDS:
        times = measurement.shared(pool)
        losses = [1 - work.iteration_s / each for each in times]
        rounds.append({
            "aggregators": len(pool.loads), "iteration_ms": [1e3 * each for each in times], "loss": losses,
            "loss_to_apart": [1 - one / two for one, two in zip(apart, times, strict=True)],
            "expected_loss": max(map(pool.loss, pool.jobs)),
            "busy": [load.busy for load in pool.loads.values()],
        })  # fmt: skip
        judged = losses if args.against == "alone" else rounds[-1]["loss_to_apart"]
        worst = max(range(len(judged)), key=judged.__getitem__)
        if judged[worst] < LOSS_LIMIT or len(pool.loads) >= row.jobs * row.servers:
            break
        pool.revert(f"job-{worst}")
    servers = row.jobs * row.servers
    return {
        "servers": servers, "aggregators": rounds[-1]["aggregators"], "reduction": 1 - rounds[-1]["aggregators"] / servers,
        "thesis_reduction": row.reduction, "loss": max(rounds[-1]["loss"]), "loss_to_apart": max(rounds[-1]["loss_to_apart"]),
        "thesis_largest_loss": 0.09, "gpu_phase_ms": 1e3 * measurement.phase_s, "alone_ms": 1e3 * work.iteration_s,
        "apart_ms": [1e3 * each for each in apart], "work_ms": 1e3 * work.work_s, "rounds": rounds,
    }  # fmt: skip


def _named(work: JobWork, job: str) -> JobWork:
    return JobWork(job, work.iteration_s, work.servers, work.tensors)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=[*ROWS][:5], choices=[*ROWS], metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--scale", type=float, default=0.05, help="factor of bytes and GPU phases; 0.05")
    parser.add_argument("--stretch", default="auto", help="further factor of the GPU phases: auto or a number; auto")
    parser.add_argument("--gpu-phase", choices=("sleep", "matmul"), default="sleep", help="what a worker does in it")
    parser.add_argument("--iterations", type=int, default=100, help="of each run, after 10 of warm-up; 100")
    parser.add_argument(
        "--against", choices=("alone", "apart"), default="alone", help="whose speed a loss is of; alone"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the times at which jobs start; 1")
    args = parser.parse_args()
    factor = stretch(args.scale, max(args.iterations // 4, 10)) if args.stretch == "auto" else float(args.stretch)
    scales = Scales(args.scale, args.scale * factor)
    gpu = None
    if args.gpu_phase == "matmul":
        gpu = GpuPhases(max(ROWS[name].jobs * ROWS[name].servers for name in args.rows))
    result: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)), "load_before": os.getloadavg()[0], "scale": args.scale, "stretch": factor,
        "against": args.against, "gpu_phase": args.gpu_phase, "gpu": gpu.report if gpu else None,
        "iterations": args.iterations, "rows": {},
    }  # fmt: skip
    for name in args.rows:
        result["rows"][name] = measured(ROWS[name], scales, args, gpu.phases if gpu else ())
        print(f"{name}: done", file=sys.stderr, flush=True)
    if gpu:
        gpu.end()
    print(json.dumps(result | {"load_after": os.getloadavg()[0]}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
