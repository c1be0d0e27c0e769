"""TIRESIAS_SERVER_COUNTS (`tsbatch --servers=MIN-MAX[:async]`): the numbers of parameter servers that an elastic job can use.

Its workers are its tasks with GPUs. A server is a process without GPUs, with as many CPUs as a worker: tsbatch raises
--cpus-per-task by the CPUs of the servers, and the controller does so with each change of size (protocol/server_counts.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.protocol import elastic_sizes, environment
from tiresias.protocol.server_counts import MOST

OPTION = "--servers"
_ASYNC = ":async"  # each worker makes steps of its own
_COUNTS = re.compile(rf"([1-9]\d{{0,5}})-([1-9]\d{{0,5}})({_ASYNC})?", re.ASCII)
_NUMBER = re.compile(r"[1-9]\d{0,5}", re.ASCII)
# options by which the tasks would not be the workers, or their CPUs not those of the request
_CONTRADICTED = ("cpus-per-gpu", "gpus-per-node", "gres", "ntasks-per-node", "tasks-per-node", "ntasks-per-core")


class ServerRequest(NamedTuple):
    """What a job with servers requests.

    Attributes:
        sizes: The numbers of GPUs and servers, as elastic_sizes.py.
        option: The option of sbatch that holds the CPUs of workers and servers; it counts after the user's own.
        servers: The servers with which the job starts.
    """

    sizes: str
    option: str
    servers: int


def check(env: Mapping[str, str]) -> None:
    """Raise UsageError for numbers of servers that are not possible, or without `--elastic`."""
    text = env.get(environment.SERVER_COUNTS, "")
    if not text:
        return
    found = _COUNTS.fullmatch(text)
    if found is None or not int(found[1]) <= int(found[2]) <= MOST:
        raise UsageError(
            f"{OPTION}={text!r:.40} is not possible; state MIN-MAX, from 1 to {MOST} servers, such as 1-4, or MIN-MAX{_ASYNC} "
            "where each worker makes steps of its own"
        )
    if not env.get(environment.ELASTIC):
        raise UsageError(f"{OPTION} is for elastic jobs: state the numbers of GPUs, too, such as --elastic=1-8")


def requested(env: Mapping[str, str], asked: Mapping[str, str]) -> ServerRequest | None:
    """Return what a job requests for its servers; None: it has none. Raises UsageError where they contradict its request.

    Args:
        env: The environment of the submission.
        asked: The submit options.
    """
    counts = env.get(environment.SERVER_COUNTS, "")
    if not counts:
        return None
    for name in _CONTRADICTED:
        if name in asked:
            raise UsageError(
                f"{OPTION} contradicts --{name}: state workers by --ntasks, --gpus-per-task, --cpus-per-task"
            )
    workers, gpus = _number(asked, "ntasks", "n"), _number(asked, "gpus-per-task")
    cpus = _number(asked, "cpus-per-task", "c", default="1")
    if not (workers and gpus and cpus):
        raise UsageError(
            f"{OPTION} needs the workers as numbers: state --ntasks and --gpus-per-task, such as -n2 --gpus-per-task=1"
        )
    numbers, mode = counts.removesuffix(_ASYNC), _ASYNC if counts.endswith(_ASYNC) else ""
    sizes = f"{elastic_sizes.without_servers(env[environment.ELASTIC])}+{numbers}*{cpus}{mode}"
    return _request(sizes, workers, gpus)


def _request(text: str, workers: int, gpus: int) -> ServerRequest:
    """Return the request for so many workers, each with so many GPUs."""
    sizes = elastic_sizes.read(text)
    assert sizes is not None  # both parts were checked
    assert sizes.servers is not None
    servers = sizes.servers.in_proportion(workers * gpus, max(sizes.most, workers * gpus))
    cpus = sizes.servers.cpus_per_task(workers, servers)
    return ServerRequest(text, f"--cpus-per-task={cpus}", sizes.servers.of_run(workers, cpus))


def _number(asked: Mapping[str, str], *names: str, default: str = "") -> int:
    """Return a number of the request, without a GPU type before it; 0 where it is missing or no such number."""
    found = next((asked[name] for name in names if name in asked), default).rpartition(":")[2]
    return int(found) if _NUMBER.fullmatch(found) else 0


def run_environment(env: Mapping[str, str], workers: int) -> dict[str, str]:
    """Return variables of the user's script: the number of servers of the run, and the CPUs of a task without those of servers.

    Args:
        env: The environment of the batch script.
        workers: The tasks of the run.
    """
    sizes = elastic_sizes.read(env.get(environment.ELASTIC, ""))
    if sizes is None or sizes.servers is None:
        return {}
    cpus = str(sizes.servers.cpus)
    found = {environment.SERVERS: str(sizes.servers.of_run(workers, int(env.get("SLURM_CPUS_PER_TASK") or cpus)))}
    if "SLURM_CPUS_PER_TASK" in env:
        found["SLURM_CPUS_PER_TASK"] = cpus
    if "SLURM_TRES_PER_TASK" in env:  # since 24.11; srun compares the two
        found["SLURM_TRES_PER_TASK"] = re.sub(r"\bcpu([=:])\d+", rf"cpu\g<1>{cpus}", env["SLURM_TRES_PER_TASK"])
    return found
