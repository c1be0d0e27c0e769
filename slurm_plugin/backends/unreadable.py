"""Records of Slurm that cannot be read: one of them hides neither the others nor itself.

A job's record becomes a SlurmJob of which nothing but the id is known (`readable` is false). The controller leaves such a job as it
is until its record can be read again, and reports it. A record without an id, and one of a node, is reported only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tiresias.slurm_plugin.backends import records
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode

_LONGEST = 200  # characters of an error that are shown
NO_ID = "a job's record has no job id"


def jobs(found: Iterable[Any], now: float, report: Callable[[str], None]) -> list[SlurmJob]:
    """The jobs of all records. `report`: called for each record without an id."""
    read: list[SlurmJob] = []
    for record in found:
        try:
            read.extend(records.jobs(record, now))
        except Exception as error:  # whatever is wrong with one record concerns that record alone
            if known := _job(record, error):
                read.append(known)
            else:
                report(f"{NO_ID}: {_words(error)}")
    return read


def nodes(found: Iterable[Any], report: Callable[[str], None]) -> list[SlurmNode]:
    """The nodes of all records that can be read. `report`: called for each other one."""
    read: list[SlurmNode] = []
    for record in found:
        try:
            read.append(records.node(record))
        except Exception as error:  # as above
            name = record.get("name") if isinstance(record, dict) else None
            report(f"node {name!s:.64}: its record cannot be read, and it is not used: {_words(error)}")
    return read


def _job(record: Any, error: Exception) -> SlurmJob | None:
    """What stands for a job, or for the waiting tasks of an array, whose record cannot be read; None where it has no id."""
    try:
        raw_id, job_id = records.number_of(record), records.id_of(record)
    except Exception:  # as above
        return None
    return SlurmJob(
        id=job_id, raw_id=raw_id, array_id=0, het_id=0, name="", user="", uid=0, account="", partition="",
        state="", completing=False, reason="None", priority=0, restarts=0, submit_time=0, begin_time=0, start_time=0,
        end_time=0, time_limit=0, gpus=0, gpu_type="", gpus_per_node=0, min_nodes=1, max_nodes=0, cpus=0,
        memory_per_node=0, memory_per_cpu=0, features="", required_nodes=(), excluded_nodes=(), shares=(), requeue=False,
        batch=False, reservation="", dependency="", exit_code=-1, readable=False,
        unmanaged=f"its record cannot be read: {_words(error)}",
    )  # fmt: skip


def _words(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    return text.encode(errors="replace").decode()[:_LONGEST]
