"""The largest counts and times that are read from Slurm's records, and why a request beyond them is left to Slurm.

Slurm stores counts in 32 and 64 bits, accepts any of them from users, and leaves jobs that no node can serve in its queue. Products
of such counts exceed 64 bits, in which the scheduler's arrays and the state database store integers. So each number is clamped
where its record is read, and a pending job that requests more is not managed.
"""

from __future__ import annotations

MAX_NUMBER = 2**64 - 1  # the widest integer that Slurm has
MAX_UINT32 = 2**32 - 1  # job ids, user ids, priorities, restart counts, exit codes
MAX_GPUS = 10**9  # GPUs of a job, or of a node
MAX_CPUS = 10**9  # CPUs or tasks of a job, or CPUs of a node
MAX_NODES = 10**7  # nodes of a job
MAX_MEMORY_MIB = 10**12  # MiB of a job on one node or for one CPU, or of a node
MAX_TIME_S = 10**10  # seconds of a time limit
MAX_EPOCH_S = 253_370_764_800  # epoch seconds: the beginning of the year 9999
MAX_ARRAY_TASKS = 100_000  # waiting tasks in one record of an array
MAX_SOCKETS = 64  # sockets of a node
MAX_GPU_INDEXES = 10_000  # GRES indexes of a job on one node


def why_unmanaged(gpus: int, nodes: int, cpus: int, tasks: int, memory: int) -> str:
    """Why a pending job can never run, on no cluster; "" where it might. The counts as requested; memory: MiB of a node or of
    a CPU."""
    limits = (
        (gpus, MAX_GPUS, "GPUs"),
        (nodes, MAX_NODES, "nodes"),
        (cpus, MAX_CPUS, "CPUs"),
        (tasks, MAX_CPUS, "tasks"),
        (memory, MAX_MEMORY_MIB, "MiB of memory"),
    )
    return next((f"cannot run: requests more than {most} {what}" for count, most, what in limits if count > most), "")
