"""Requests for GPUs, tasks, CPUs, memory and nodes, in every spelling that sbatch has, combined."""

from __future__ import annotations

from typing import NamedTuple


class Request(NamedTuple):
    """Options of sbatch. fixed: whether they leave one number of nodes only, and one split of the GPUs over them."""

    options: tuple[str, ...]
    fixed: bool

    @property
    def words(self) -> str:
        return " ".join(self.options)


# GPUs, and whether they are fixed for each node or task
GPUS = (
    ("--gpus=1", False), ("--gpus=2", False), ("--gpus=4", False), ("--gpus=6", False), ("--gpus=v100:2", False),
    ("--gres=gpu:1", True), ("--gres=gpu:2", True), ("--gres=gpu:v100:2", True),
    ("--gpus-per-node=1", True), ("--gpus-per-node=v100:2", True), ("--gpus-per-node=4", True),
    ("--gpus-per-task=1", True), ("--gpus-per-task=v100:1", True), ("--gpus-per-socket=1 --sockets-per-node=1", True),
    ("--gpus-per-socket=1 --sockets-per-node=2", True), ("--tres-per-task=gres/gpu:1", True), ("--tres-per-task=gres:gpu:1", True),
)  # fmt: skip
# Tasks and nodes, and whether the number of nodes is fixed
TASKS = (
    ("", False), ("-n1", True), ("-n2", False), ("-n4", False), ("-N1", True), ("-N2", True), ("-N1-2", False), ("-n4 -N2", True),
    ("-N2 --ntasks-per-node=1", True), ("-N2 --ntasks-per-node=2", True), ("-n4 --ntasks-per-node=2", True),
    ("--ntasks-per-gpu=1", False), ("--ntasks-per-gpu=2", False), ("-N1 --ntasks-per-gpu=1", True),
    ("-n4 --ntasks-per-socket=2", False), ("-n2 --sockets-per-node=2", False), ("-n2 --ntasks-per-core=1", False),
)  # fmt: skip
MORE = (
    "", "-c2", "--cpus-per-gpu=2", "--mem=600", "--mem-per-cpu=300", "--mem-per-gpu=400", "--exclusive", "--nodelist=gpu03",
    "--exclude=gpu01,gpu02",
)  # fmt: skip
# As issue 15 found them
KNOWN = ("--ntasks-per-gpu=1 --gpus=2", "--gpus=4 -N1 --ntasks-per-gpu=1", "-N2 --ntasks-per-node=2 --gpus=4")


def everything() -> list[Request]:
    """Every pair of GPUs and tasks, each with one of the others in turn."""
    found = [Request(tuple(words.split()), "-N" in words) for words in KNOWN]
    for row, (gpus, split) in enumerate(GPUS):
        for column, (tasks, nodes) in enumerate(TASKS):
            more = MORE[(row + 2 * column) % len(MORE)]
            found.append(Request((*gpus.split(), *tasks.split(), *more.split()), split and nodes))
    return found


def few() -> list[Request]:
    """A part for every commit: what was found, and each spelling of GPUs and of tasks once or twice."""
    every = everything()
    return [*every[: len(KNOWN)], *every[len(KNOWN) :: 11]]
