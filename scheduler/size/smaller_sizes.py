"""The sizes with which running elastic jobs go on at once that release GPUs for other jobs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tiresias.scheduler.model import Ints, Jobs
from tiresias.scheduler.size.elastic_jobs import is_elastic, least_sizes


def smaller_sizes(jobs: Jobs, sizes: Ints, victims: Iterable[int], takes: Callable[[int, int], bool]) -> dict[int, int]:
    """Return the smaller size of each elastic victim for which GPUs are left, by row.

    The next decisions start such a job with the size that the sizing finds, else with its fewest GPUs (`at_least_size`).

    Args:
        jobs: The jobs.
        sizes: The GPUs that the sizing found for each job, shape (jobs,).
        victims: Rows of the jobs that release their GPUs for others, the most urgent first.
        takes: Takes so many GPUs for a job from what the others leave; False: no nodes fit.
    """
    elastic, least = is_elastic(jobs), least_sizes(jobs)
    found: dict[int, int] = {}
    for row in victims:
        possible = sorted({int(sizes[row]), int(least[row])}, reverse=True) if elastic[row] else []
        for gpus in possible:
            if gpus < jobs.gpus[row] and takes(row, gpus):
                found[row] = gpus
                break
    return found
