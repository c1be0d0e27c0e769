"""The workloads under schedulers of this project, beside what Pollux' own simulator found.

That one has 16 nodes of 4 GPUs, decides every 60 s, and a job makes no progress for 30 s after each start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.elastic_job import ElasticJob, JobSize, fewest_parts
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.pollux_replay.batch_progress import BatchProgress
from tiresias.simulator.pollux_replay.measured_steps import MeasuredSteps
from tiresias.simulator.pollux_replay.training import MeasuredTraining
from tiresias.simulator.pollux_replay.workloads import Workload
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

CLUSTER = ClusterSize(16, 4)
INTERVAL_S = 60.0
START_S = 30.0  # without progress after each start
_TWO_QUEUES = (16 * 3600.0,)  # GPU-seconds
SCHEDULES: Mapping[str, PolicyConfig] = {
    "tiresias": PolicyConfig(name="las", thresholds=_TWO_QUEUES, starve_limit=float("inf")),
    "optimus": PolicyConfig(name="fifo", sizing="marginal_gain", preemption_cost=START_S),
    "weighted_gain": PolicyConfig(name="las", thresholds=_TWO_QUEUES, sizing="weighted_gain", preemption_cost=START_S),
}


@dataclass(frozen=True, eq=False)
class Measurements:
    """What was measured of each model."""

    times: Mapping[str, MeasuredSteps]
    progress: Mapping[str, BatchProgress]

    def trace(self, workload: Workload, *, elastic: bool) -> Trace:
        """Return the jobs of a workload; elastic ones can use one GPU up to the most that their batch can be divided among."""
        jobs = zip(
            workload.name, workload.model, workload.submit.tolist(), workload.gpus.tolist(), workload.batch.tolist(), strict=True
        )  # fmt: skip
        kinds: dict[tuple[str, int], tuple[MeasuredTraining, Callable[[JobSize], float]]] = {}
        return Trace.of(self._job(*job, kinds, elastic=elastic) for job in jobs)

    def _job(
        self,
        name: str,
        model: str,
        submit: float,
        gpus: int,
        batch: int,
        kinds: dict[tuple[str, int], tuple[MeasuredTraining, Callable[[JobSize], float]]],
        *,
        elastic: bool,
    ) -> TraceJob:
        if (model, batch) not in kinds:
            training = MeasuredTraining(model, batch, self.times[model], self.progress[model])
            kinds[model, batch] = training, _speed(training)
        training, speed = kinds[model, batch]
        work = training.seconds(gpus, len(fewest_parts(gpus, CLUSTER.gpus_per_node)))
        most = min(training.most_gpus, CLUSTER.gpus)
        sizes = ElasticJob(1, max(most, gpus), speed=speed) if elastic and most > 1 else None
        return TraceJob(name, submit, gpus, work + START_S, model=model, elastic=sizes)


def _speed(training: MeasuredTraining) -> Callable[[JobSize], float]:
    """Return the trainings a second by size, each computed once."""
    seconds = lru_cache(maxsize=None)(training.seconds)
    return lambda size: 1.0 / seconds(size.gpus, size.nodes)


def replayed(workload: Workload, measured: Measurements, config: PolicyConfig) -> Outcome:
    """Return the outcome of a workload under a configuration; only with a sizing other than `fixed` the jobs are elastic.

    The first start costs START_S of work, each later one START_S on the GPUs.
    """
    trace = measured.trace(workload, elastic=config.sizing != "fixed")
    return simulate(trace, CLUSTER, Rules(POLICIES[config.name], config, Cost(resume=START_S), interval=INTERVAL_S))
