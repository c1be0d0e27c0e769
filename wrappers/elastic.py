"""TIRESIAS_ELASTIC (`tsbatch --elastic=MIN-MAX[:STEP]`): the numbers of GPUs that the job can use.

The controller changes the request of such a job before it starts it again: its tasks with --gpus-per-task, else its nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from tiresias.errors import UsageError
from tiresias.protocol import elastic_sizes, environment
from tiresias.wrappers import parameter_servers

OPTION = "--elastic"
# what a start at another size would contradict: names of options, with the letters that stand for them
_CONTRADICTED = {
    "array": "each task of an array has the size of all",
    "a": "each task of an array has the size of all",
    "exclusive": "the GPUs of whole nodes are not the controller's to choose",
    "gpus": "state GPUs by --gpus-per-task, --gpus-per-node or --gres",
    "gpus-per-socket": "state GPUs by --gpus-per-task, --gpus-per-node or --gres",
    "ntasks-per-gpu": "state tasks by --ntasks and --gpus-per-task",
}
_TASKS_OF_NODES = re.compile(r"(\d{1,7})(?:\(x(\d{1,7})\))?", re.ASCII)


def check(env: Mapping[str, str]) -> None:
    """Raise UsageError for sizes that cannot be read."""
    text = env.get(environment.ELASTIC, "")
    if text and elastic_sizes.read(text) is None:
        raise UsageError(f"{OPTION}={text!r:.40} is not possible; state MIN-MAX or MIN-MAX:STEP in GPUs, such as 2-8:2")


def check_plain(env: Mapping[str, str]) -> None:
    """Raise UsageError where a job of plain sbatch is to be elastic: it cannot save, so its size cannot change."""
    if env.get(environment.ELASTIC) and env.get(environment.CHECKPOINT) == "none":
        raise UsageError(
            f"{OPTION} contradicts {environment.CHECKPOINT}=none: a job that does not save cannot change its size; leave one out"
        )


def check_left_alone(env: Mapping[str, str], reason: str) -> None:
    """Raise UsageError where an elastic job would be left to sbatch, as a heterogeneous one."""
    if env.get(environment.ELASTIC) and reason:
        raise UsageError(f"{OPTION} is not possible: the job would be left to sbatch as it is: {reason}; leave one out")


def check_request(env: Mapping[str, str], asked: Mapping[str, str]) -> None:
    """Raise UsageError where the request cannot change its size. asked: the submit options."""
    if not env.get(environment.ELASTIC):
        return
    if asked.get("requeue") == "no":
        raise UsageError(
            f"{OPTION} contradicts --no-requeue: a job changes its size when it starts again; leave one out"
        )
    _check_sizes(env[environment.ELASTIC], asked)
    for name, why in _CONTRADICTED.items():
        if name in asked:
            option = f"--{name}" if len(name) > 1 else f"-{name}"
            raise UsageError(f"{OPTION} contradicts {option}: {why}")


def _check_sizes(text: str, asked: Mapping[str, str]) -> None:
    """Raise UsageError where no size but the requested one is possible, as far as the request has numbers."""
    sizes, by_node = elastic_sizes.read(text), _number(asked, "gpus-per-node")
    unit, counted = (by_node, ("nodes", "N")) if by_node else (_number(asked, "gpus-per-task"), ("ntasks", "n"))
    is_stated = any(name in asked for name in counted)
    count = _number(asked, *counted) if is_stated else 1
    if sizes is None or not unit or not count:
        return
    requested = unit * count
    step = math.lcm(unit, sizes.step)
    least = requested - max(requested - sizes.least, 0) // step * step
    if least == requested and requested + step > sizes.most:
        raise UsageError(
            f"{OPTION}={text}: sizes differ from the {requested} GPUs that the job requests by multiples of {step}, and none "
            f"is from {sizes.least} to {sizes.most}; state other sizes"
        )


def _number(asked: Mapping[str, str], *names: str) -> int:
    """Return a number of the request; 0 where it is missing, has a type ("a100:4") or is a range."""
    found = next((asked[name] for name in names if name in asked), "").rpartition(":")[2]
    return int(found) if re.fullmatch("[0-9]{1,7}", found, re.ASCII) else 0


def run_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the user's script. Slurm 22.05 keeps the number of tasks of the submission in it, whatever
    the run has; `srun` without a number of tasks would start that many."""
    found = {name: value for name, value in env.items() if name != environment.SERVERS}  # that one is of another job
    if env.get(environment.ELASTIC) and (tasks := _tasks(env.get("SLURM_TASKS_PER_NODE", ""))):
        found |= {name: str(tasks) for name in ("SLURM_NTASKS", "SLURM_NPROCS") if name in env}
        found |= parameter_servers.run_environment(env, tasks)
    return found


def _tasks(per_node: str) -> int:
    """Return the tasks of all nodes, of "2(x3),1"; 0 for what cannot be read."""
    found = [_TASKS_OF_NODES.fullmatch(part) for part in per_node.split(",")]
    return sum(int(one[1]) * int(one[2] or 1) for one in found if one) if all(found) else 0
