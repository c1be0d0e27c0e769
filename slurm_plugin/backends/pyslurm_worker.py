# SPDX-License-Identifier: GPL-2.0-or-later
"""The process that holds pyslurm, which is GPL, keeps the interpreter's lock during an RPC and ends the interpreter at will.

Started by the adapter (pyslurm.py) as `python3 -m tiresias.slurm_plugin.backends.pyslurm_worker`. It reads one JSON
list a line from standard input, [verb, argument, ...], and answers with one line: {"ok": value} or {"error": "words"}.
Its first line is {"ok": names of the fields of a row}. It ends when its input ends.
Rows have the shape of `squeue --json` records. Needs PYSLURM_DISABLE_AUTO_INIT=1.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyslurm

FIELDS = (
    "job_id", "array_job_id", "array_task_id", "array_task_string", "het_job_id", "het_job_offset", "name", "user_name",
    "user_id", "account", "partition", "job_state", "state_reason", "priority", "restart_cnt", "submit_time", "eligible_time",
    "start_time", "end_time", "time_limit", "node_count", "max_nodes", "cpus", "tasks", "sockets_per_node", "tres_per_node",
    "tres_per_task", "memory_per_node", "memory_per_cpu", "features", "required_nodes", "excluded_nodes",
    "nodes", "requeue", "batch_flag", "resv_name", "dependency", "exit_code", "command",
    "qos", "licenses", "array_max_tasks", "shared",
    "tasks_per_node", "tasks_per_socket", "tasks_per_tres", "cpus_per_task", "minimum_cpus_per_node", "cpus_per_tres",
    "admin_comment", "comment", "nice",
)  # fmt: skip


def signature(job: Any) -> tuple[Any, ...]:
    """What shows that a job changed, at 3 us a job: no field that moves while nothing happens (a pending job's start time)."""
    state = job.state
    return (
        state, job.state_reason, job.priority, job.requeue_count, job.submit_time, job.eligible_time, job.time_limit,
        job.num_nodes, job.max_nodes, job.cpus, job.allocated_nodes, job.required_nodes, job.partition,
        job.excluded_nodes, job.ntasks, job.constraints, job.reservation, job.array_tasks_waiting,
        state == "PENDING" or job.end_time, job.qos, job.array_tasks_parallel, job.licenses, job.account, dependency(job),
    )  # fmt: skip


def row(job: Any) -> list[Any]:
    """Return the values of FIELDS for a job."""
    return [
        job.id, job.array_id, array_task(job), job.array_tasks_waiting, job.heterogeneous_id, job.heterogeneous_offset or 0,
        text(job, "name") or "", user_name(job.user_id), job.user_id, job.account, job.partition, [job.state], job.state_reason,
        job.priority, job.requeue_count, job.submit_time, job.eligible_time, *times(job), job.time_limit,
        job.num_nodes, job.max_nodes, job.cpus, job.ntasks, job.sockets_per_node, gres(job.gres_per_node),
        tres(job.tres_per_task), job.memory_per_node, job.memory_per_cpu,
        ",".join(job.constraints), job.required_nodes, job.excluded_nodes, job.allocated_nodes, job.is_requeueable,
        job.is_batch_job, job.reservation, dependency(job),
        (job.exit_code or 0) << 8 | (job.exit_code_signal or 0), text(job, "command"),
        job.qos, ",".join(job.licenses or ()), job.array_tasks_parallel, ["none"] if job.resource_sharing == "NO" else [],
        job.ntasks_per_node, job.ntasks_per_socket, job.ntasks_per_gpu, job.cpus_per_task, job.min_cpus_per_node,
        "gres/gpu" if job.cpus_per_task is None else "",  # None only with --cpus-per-gpu, whose number may be None, too
        text(job, "admin_comment"), text(job, "comment"), job.nice,
    ]  # fmt: skip


def times(job: Any) -> tuple[Any, Any]:
    """Start and end; a pending job's are guesses that move with the clock."""
    return (None, None) if job.state == "PENDING" else (job.start_time, job.end_time)


def array_task(job: Any) -> int | None:
    """None for a record that stands for all waiting tasks, too, or for those that were cancelled while they waited.

    pyslurm takes the 0 of the first task for no number. That task has nodes once it has run.
    """
    number: int | None = job.array_task_id
    if number is not None or not job.array_id or job.array_tasks_waiting:
        return number
    never_ran = job.state not in ("PENDING", "RUNNING", "SUSPENDED") and not job.allocated_nodes
    return None if never_ran and job.id == job.array_id else 0


def dependency(job: Any) -> str:
    """Return what is left of the job's dependencies; "" for nothing. It may change while nothing else of a held job does."""
    found = job.dependencies
    return str(found) if found else ""


def text(job: Any, field: str) -> str | None:
    """What the user wrote."""
    try:
        found = getattr(job, field)
        return None if found is None else str(found)
    except UnicodeDecodeError:  # any bytes make a job's name, and one job must not spoil the listing
        return "\N{REPLACEMENT CHARACTER}"


@cache
def user_name(uid: int) -> str:
    """Return the name of a user, its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def gres(counts: Mapping[str, int]) -> str:
    """Return GRES in Slurm's notation: name:count, separated by commas."""
    return ",".join(f"{name}:{count}" for name, count in counts.items())


def tres(resources: Any) -> str:
    """Return the GRES of a TRES list in Slurm's notation: name=count, separated by commas."""
    return ",".join(f"{one.type_and_name}={one.count}" for one in resources.gres.values()) if resources else ""


class Server:
    """Executes the adapter's requests; each public method is one."""

    def __init__(self) -> None:
        self._sent: dict[int, tuple[Any, ...]] = {}

    def jobs(self) -> dict[str, Any]:
        """Rows of the jobs that changed since the last answer, and the numbers of those that are gone and of those that pyslurm
        cannot read."""
        now = {job.id: job for job in pyslurm.Jobs.load().values()}
        seen: dict[int, tuple[Any, ...]] = {}
        changed, unreadable = [], []
        for number, job in now.items():
            try:
                seen[number] = one = signature(job)
                if self._sent.get(number) != one:
                    changed.append(row(job))
            except Exception:  # whatever pyslurm makes of one job must not spoil the listing
                seen.pop(number, None)
                unreadable.append(number)
        afresh, gone = not self._sent, list(self._sent.keys() - now.keys())
        self._sent = seen
        return {"changed": changed, "gone": gone, "all": afresh, "unreadable": unreadable}

    def version(self) -> str:
        """Return Slurm's version."""
        return str(pyslurm.slurmctld.Config.load().version)

    def job(self, number: int) -> list[Any]:
        """Return the row of one job."""
        job = pyslurm.Job.load(number)
        if number in self._sent:
            self._sent[number] = signature(job)  # else a listing that shows it as before would keep quiet about it
        return row(job)

    def nodes(self) -> list[dict[str, Any]]:
        """Return all nodes, in the shape of `scontrol show nodes --json`."""
        return [self._node(node) for node in pyslurm.Nodes.load().values()]

    @staticmethod
    def _node(node: Any) -> dict[str, Any]:
        """The name alone of a node that pyslurm cannot read."""
        try:
            return {
                "name": node.name, "state": node.state.split("+"), "reason": node.reason, "gres": gres(node.configured_gres),
                "effective_cpus": node.effective_cpus, "cpus": node.total_cpus, "alloc_cpus": node.allocated_cpus,
                "real_memory": node.real_memory, "specialized_memory": node.memory_reserved_for_system,
                "alloc_memory": node.allocated_memory, "active_features": node.active_features,
                "partitions": node.partitions,
            }  # fmt: skip
        except Exception:
            return {"name": node.name}

    def hold(self, number: int) -> None:
        """Hold a job."""
        pyslurm.Job(number).hold()

    def release(self, number: int) -> None:
        """Lift the hold of a job."""
        pyslurm.Job(number).release()


def answer(call: Callable[[], Any]) -> str:
    """Return a line of JSON with the result of a call, or its error."""
    try:
        return json.dumps({"ok": call()})
    except Exception as error:  # whatever pyslurm raises is the adapter's to judge
        return json.dumps({"error": str(error) or repr(error)})


def hello() -> tuple[str, ...]:
    """Initialise pyslurm; return the names of a row's fields."""
    pyslurm.slurm_init()
    return FIELDS


def main() -> None:
    """Answer requests until the input ends."""
    # pyslurm prints now and then: the adapter's pipe is kept out of its reach.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = Server()
    print(answer(hello), file=out, flush=True)
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        print(answer(lambda: getattr(server, verb)(*arguments)), file=out, flush=True)  # noqa: B023 (called at once)


if __name__ == "__main__":
    main()
