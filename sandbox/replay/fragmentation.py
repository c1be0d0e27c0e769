"""The part of the waits that fragmentation caused: enough GPUs were free, but on too many nodes. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tiresias.sandbox.replay.replay_results import JobResult


def share(results: Sequence[JobResult], gpus: int, gpus_per_node: int) -> float:
    """Return the part of the GPU-seconds of waiting, of jobs of at least a whole node, in which as many GPUs were free; nan
    if none waited.

    The time of a start (half a second, times the time scale) counts as waiting, too. O(events x waiting jobs).
    """
    moments = sorted({moment for result in results for moment in (result.submit, *_ends(result))})
    waited = fragmented = 0.0
    for begin, end in itertools.pairwise(moments):
        free = gpus - sum(result.job.num_gpus for result in results if _runs(result, begin))
        for result in results:
            if result.job.num_gpus >= gpus_per_node and _waits(result, begin):
                demand = result.job.num_gpus * (end - begin)
                waited += demand
                fragmented += demand if result.job.num_gpus <= free else 0.0
    return fragmented / waited if waited else float("nan")


def _ends(result: JobResult) -> list[float]:
    return [moment for run in result.runs for moment in (run.start, run.end) if moment == moment]


def _runs(result: JobResult, moment: float) -> bool:
    return any(run.start <= moment < run.end for run in result.runs)


def _waits(result: JobResult, moment: float) -> bool:
    return result.submit <= moment < result.finish and not _runs(result, moment)
