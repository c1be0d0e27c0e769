"""The resources of a program as it detects them itself, and the differences between two runs of one request."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.slurm_plugin.matrix.requests_matrix import Request

# Of the batch script: numbers of the request, not of the place.
_ENVIRONMENT = re.compile(
    r"SLURM_(NTASKS|NPROCS|CPUS_PER_TASK|NTASKS_PER_\w+|MEM_PER_\w+|GPUS|GPUS_PER_\w+|CPUS_PER_GPU|TRES_PER_TASK|"
    r"DISTRIBUTION|THREADS_PER_CORE)=(.*)"
)
_NODE = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")


@dataclass
class Outcome:
    """rejected: sbatch's words. state: Slurm's, PENDING of a job that never starts. nodes: (GPUs, CPUs, MB) of each. tasks: GPUs
    that each task of srun sees. code: srun's exit code."""

    rejected: str = ""
    job: str = ""
    state: str = ""
    reason: str = ""
    code: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)

    def read(self, text: str) -> None:
        for line in text.splitlines():
            if found := _ENVIRONMENT.fullmatch(line):
                self.environment[found[1]] = found[2]
            elif line.startswith("TASK "):
                self.tasks.append(int(line.split()[2]))
            elif line.startswith("SRUN "):
                self.code = line.split()[1]
            for names, cpus, memory, gres in _NODE.findall(line):
                self.nodes += [(_gpus(gres), _count(cpus), int(memory))] * _count(
                    names.partition("[")[2].rstrip("]") or "0"
                )

    def totals(self) -> tuple[int, ...]:
        return tuple(sum(node[column] for node in self.nodes) for column in range(3))


def _count(ranges: str) -> int:
    """0-3,7 -> 5; names of nodes keep their zeros."""
    ends = [one.partition("-") for one in ranges.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def _gpus(gres: str) -> int:
    return sum(int(one) for one in re.findall(r"gpu(?::[^:(,]+)?:(\d+)\(", gres))


def differences(request: Request, plain: Outcome, own: Outcome) -> dict[str, Any]:
    """Fields that must not differ. The number of nodes, and with it CPUs, memory and the GPUs of each task, are compared where
    the request fixes them, or where both runs had the same split of GPUs over
    nodes; all GPUs, tasks and what the environment shows always."""
    found: dict[str, Any] = {}

    def compare(name: str, one: Any, two: Any) -> None:
        if one != two:
            found[name] = [one, two]

    compare("rejected", bool(plain.rejected), bool(own.rejected))
    compare("state", plain.state, own.state)
    compare("srun", plain.code, own.code)
    compare("environment", plain.environment, own.environment)
    compare("tasks", len(plain.tasks), len(own.tasks))
    exclusive = "--exclusive" in request.options
    if request.fixed:
        compare("nodes", len(plain.nodes), len(own.nodes))
        compare("GPUs of each task", Counter(plain.tasks), Counter(own.tasks))
    same = len(plain.nodes) == len(own.nodes)
    if same or not exclusive:
        compare("GPUs", plain.totals()[0], own.totals()[0])
    if same and sorted(node[0] for node in plain.nodes) == sorted(node[0] for node in own.nodes):
        compare("CPUs and MB", plain.totals()[1:], own.totals()[1:])
    return found
