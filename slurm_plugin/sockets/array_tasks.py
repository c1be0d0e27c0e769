"""The jobs that the id of an `explain` request names: one job, an array ("217"), or some of its tasks ("217_[1-3]")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tiresias.slurm_plugin.backends import parse

MAX_TASKS = 1000  # in one answer
_TASKS = re.compile(r"([0-9]{1,10})_\[([0-9,:-]{1,400})(?:%[0-9]+)?\]")


def chosen(job_id_or_tasks: str) -> tuple[str, frozenset[int] | None]:
    """Return ("217", {1, 2, 3}) for "217_[1-3]" and "217_[1-3%2]"; any other id unchanged, with None."""
    found = _TASKS.fullmatch(job_id_or_tasks)
    return (found[1], frozenset(parse.integers(found[2]))) if found else (job_id_or_tasks, None)


def matching(job_id_or_tasks: str, ids: Iterable[str]) -> list[str]:
    """Return the ids that `job_id_or_tasks` names, tasks in ascending order: the job itself, or the tasks of the array."""
    array, tasks = chosen(job_id_or_tasks)
    known = set(ids)
    if tasks is None and job_id_or_tasks in known:
        return [job_id_or_tasks]
    numbers = [int(one.removeprefix(f"{array}_")) for one in known if _is_task(one, array)]
    return [f"{array}_{task}" for task in sorted(numbers) if tasks is None or task in tasks]


def grouped(found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Group the tasks in the same state for the same reason, in the order of their first task, whose facts stand for all.

    Args:
        found: `job` and `slurm` of each task, by id, in ascending order.
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    for job_id, facts in found.items():
        groups.setdefault(_likeness(facts), []).append(job_id)
    return [
        {"tasks": parse.ranges([int(one.rpartition("_")[2]) for one in ids]), "count": len(ids), **found[ids[0]]}
        for ids in groups.values()
    ]


def _likeness(found: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tasks of one group share. Running tasks change their queue one after the other, which is not shown."""
    job, slurm = found["job"], found["slurm"] or {}
    return (
        job.get("state"),
        job.get("phase"),
        job.get("queue") if job.get("state") == "WAITING" else None,
        slurm.get("state"),
        slurm.get("reason"),
        slurm.get("exit_code"),
        job.get("gpus"),
        job.get("restarts"),
    )


def _is_task(job_id: str, array: str) -> bool:
    head, _, task = job_id.partition("_")
    return head == array and task.isdecimal()
