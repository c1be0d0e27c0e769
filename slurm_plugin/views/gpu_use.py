"""How a job uses its GPUs, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiresias.protocol.gpu_activity import SOURCES
from tiresias.slurm_plugin.views.text import duration

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedJob

_STAGES = {"warned": "; its owner is warned", "demoted": "; ranked after all other jobs until it uses them"}
SHORTEST_S = 60.0  # an idle time that is shown


def gpu_use(job: PublishedJob) -> str:
    """Return the use of a job's GPUs; "" where it is not known."""
    idle = job.get("unused_gpus")
    if not idle:
        return ""
    unused = [one for one in idle if one >= SHORTEST_S or job.get("gpu_use") != "none"]
    source = SOURCES.get(job.get("gpu_use_source", ""), "")
    if not unused:
        return f"in use ({source})"
    which = "unused" if len(unused) == len(idle) else f"{len(unused)} of {len(idle)} unused"
    return f"{which} for {duration(min(unused))} ({source}){_STAGES.get(job.get('gpu_use', ''), '')}"


def is_unused(job: PublishedJob) -> bool:
    """Return whether a job has not used its GPUs for so long that it is shown."""
    return job.get("gpu_use", "") not in ("", "none")
