"""The sizes of elastic jobs that Slurm's limits allow now, of those that their owners state."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter

from tiresias.slurm_plugin.admission.size_limits import SizeLimits
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.state import own_size
from tiresias.slurm_plugin.state.journal_rows import JobRow

Range = tuple[int, int]
# elastic jobs that are equal in these fields have the same sizes
_SHAPE = attrgetter(
    "partition", "user", "account", "qos", "gpus", "gpu_type", "tasks", "cpus", "memory_per_node", "memory_per_cpu",
    "gpus_per_node", "tasks_per_node", "time_limit", "state",
)  # fmt: skip


def possible_sizes(
    rules: SlurmRules, slurm: SlurmSnapshot, shown: Sequence[SlurmJob], rows: Mapping[str, JobRow]
) -> Mapping[str, Range]:
    """Return the fewest and the most GPUs of each elastic job, by job id. O(jobs + elastic jobs x log sizes).

    Args:
        rules: Slurm's rules.
        slurm: All jobs.
        shown: The jobs of the decision; waiting ones with their own request.
        rows: Their rows.
    """
    elastic = [job for job in shown if own_size.step(rows[job.id], job)]
    if not elastic:
        return {}
    limits, known = SizeLimits(rules, slurm.jobs, elastic, slurm.time), dict[tuple[object, ...], Range]()
    found = {}
    for job in elastic:
        row = rows[job.id]
        key = (*_SHAPE(job), row.min_gpus, row.max_gpus, row.elastic)
        if key not in known:
            known[key] = _range(limits, job, row)
        found[job.id] = known[key]
    return found


def _range(limits: SizeLimits, job: SlurmJob, row: JobRow) -> Range:
    """Return the sizes around the present one that are allowed without a gap."""
    held, step = (job if job.state == "RUNNING" else None), own_size.step(row, job)
    sizes = own_size.stated(row)

    def is_refused(gpus: int) -> bool:
        servers = own_size.servers_in_proportion(sizes, job, gpus) if sizes else 0
        return bool(limits.why_not(own_size.request_of(job, gpus, sizes and sizes.servers, servers), held))

    larger = range(job.gpus + step, row.max_gpus + 1, step)
    smaller = range(job.gpus - step, max(row.min_gpus, 1) - 1, -step)
    most = job.gpus + step * bisect_left(larger, True, key=is_refused)
    return job.gpus - step * bisect_left(smaller, True, key=is_refused), most
