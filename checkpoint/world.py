"""The identity of this process: its rank, the number of ranks, and the launch that they share."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from tiresias.protocol.process_identity import own_name, start_ticks


class World(NamedTuple):
    """The identity of this process.

    Attributes:
        rank: From 0.
        size: Number of ranks.
        launch: The same for all ranks that were started together and for no others; valid in a file name.
    """

    rank: int = 0
    size: int = 1
    launch: str = "alone"

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> World:
        """torchrun's variables, else those of an srun step, else one process.

        A batch script has SLURM_PROCID=0 and SLURM_NTASKS too: only SLURM_STEP_NUM_TASKS shows that srun started this process.
        """
        for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
            found = _number(env.get(rank)), _number(env.get(size))
            if 0 <= found[0] < found[1]:
                return cls(*found, _launch(env, found[1]))
        return cls(0, 1, _launch(env, 1))


def _launch(env: Mapping[str, str], size: int) -> str:
    if size == 1:
        return own_name()
    again = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    if "SLURM_STEP_NUM_TASKS" in env:
        names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
        return re.sub(r"[^A-Za-z0-9.-]", "_", ".".join([*(env.get(name, "0") for name in names), again]))
    return re.sub(r"[^A-Za-z0-9.-]", "_", f"{os.getppid()}-{start_ticks(os.getppid())}.{again}")


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) else -1
