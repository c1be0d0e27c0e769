"""Ranks of a training program in real processes, as srun would start them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tiresias.protocol import control

PROGRAM = Path(__file__).with_name("rank_program.py")
SPEEDS = (0.004, 0.002, 0.008, 0.003)  # seconds a step
LaunchOf = Callable[..., "Launch"]


class Launch:
    """All ranks of one start. number: Slurm's restart count. views: where each rank sees the job's folder, by turns."""

    def __init__(self, views: Sequence[Path], number: int, lockstep: bool, speeds: Sequence[float]) -> None:
        self.control, self.checkpoints = views[0] / "control", views[0] / "checkpoints"
        self.stop_file = control.stop_file(self.control, number)
        (self.control / control.RANKS).mkdir(parents=True, exist_ok=True)
        shared = views[0] / f"lockstep-{number}"
        shared.write_bytes(bytes(8 * len(speeds)))
        self.ranks: list[subprocess.Popen[str]] = []
        for rank, speed in enumerate(speeds):
            view = views[rank % len(views)]
            env = {
                **os.environ,
                "TIRESIAS_CONTROL": str(view / "control"),
                "TIRESIAS_CHECKPOINT_DIR": str(view / "checkpoints"),
                "TIRESIAS_RESTART": str(number),
                "SLURM_PROCID": str(rank),
                "SLURM_STEP_NUM_TASKS": str(len(speeds)),
                "SLURM_JOB_ID": "control",
                "SLURM_STEP_ID": str(number),
            }
            command = [sys.executable, str(PROGRAM), str(speed), *([str(shared)] if lockstep else [])]
            self.ranks.append(
                subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )

    def lines(self) -> list[str]:
        """The next line of each."""
        found = []
        for rank in self.ranks:
            assert rank.stdout
            found.append(rank.stdout.readline().rstrip("\n"))
        return found

    def ends(self) -> list[list[str]]:
        """Each rank's ["stop", step, own]; all must have exited with 99."""
        outputs = [rank.communicate(timeout=60) for rank in self.ranks]
        assert [rank.returncode for rank in self.ranks] == [99] * len(self.ranks), [errors for _, errors in outputs]
        return [lines.split() for lines, _ in outputs]


@pytest.fixture
def launch_of() -> Iterator[LaunchOf]:
    made: list[Launch] = []

    def start(
        views: Path | Sequence[Path], number: int = 0, lockstep: bool = False, speeds: Sequence[float] = SPEEDS
    ) -> Launch:
        made.append(Launch([views] if isinstance(views, Path) else views, number, lockstep, speeds))
        return made[-1]

    yield start
    for launch in made:
        for rank in launch.ranks:
            rank.kill()
            rank.communicate()
