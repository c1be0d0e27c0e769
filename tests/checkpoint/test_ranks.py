"""Four real processes at different speeds: they stop at one step, commit one checkpoint, and go on from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiresias.checkpoint import Store, control

PROGRAM = Path(__file__).with_name("rank_program.py")
SPEEDS = (0.004, 0.002, 0.008, 0.003)  # seconds a step
RESTART = 3


class Launch:
    """All ranks of one start, as srun would give them their variables."""

    def __init__(self, folder: Path, number: int, lockstep: bool, speeds: tuple[float, ...] = SPEEDS) -> None:
        self.control = folder / "control"
        (self.control / control.RANKS).mkdir(parents=True, exist_ok=True)
        shared = folder / f"lockstep-{number}"
        shared.write_bytes(bytes(8 * len(speeds)))
        self.ranks = []
        for rank, speed in enumerate(speeds):
            env = {
                **os.environ, "TIRESIAS_CONTROL": str(self.control), "TIRESIAS_CHECKPOINT_DIR": str(folder / "checkpoints"),
                "TIRESIAS_RESTART": str(RESTART + number), "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(len(speeds)),
                "SLURM_JOB_ID": "control", "SLURM_STEP_ID": str(number),
            }  # fmt: skip
            command = [sys.executable, str(PROGRAM), str(speed), *([str(shared)] if lockstep else [])]
            self.ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))

    def started(self) -> list[str]:
        lines = []
        for rank in self.ranks:
            assert rank.stdout
            lines.append(rank.stdout.readline())
        return lines

    def ends(self) -> list[list[str]]:
        """Each rank's ["stop", step, own]; all must have exited with 99."""
        try:
            lines = [rank.communicate(timeout=60)[0].split() for rank in self.ranks]
        finally:
            for rank in self.ranks:
                rank.kill()
        assert [rank.returncode for rank in self.ranks] == [99] * len(self.ranks)
        return lines


def tell(launch: Launch, who: str) -> None:
    if who == "all":
        for rank in launch.ranks:
            rank.send_signal(signal.SIGUSR2)
    elif who == "stop file":
        control.stop_file(launch.control, RESTART).touch()
    else:
        launch.ranks[int(who)].send_signal(signal.SIGTERM)


@pytest.mark.parametrize("lockstep", [True, False])
@pytest.mark.parametrize("who", ["0", "2", "all", "stop file"])
def test_all_ranks_stop_at_one_step(tmp_path: Path, who: str, lockstep: bool) -> None:
    launch = Launch(tmp_path, 0, lockstep)
    launch.started()
    time.sleep(0.7)  # anywhere in the training: what is tested may not depend on when
    tell(launch, who)
    ends = launch.ends()
    assert len({step for _, step, _ in ends}) == 1, ends
    report = control.read(launch.control / control.PROGRAM, os.getuid())
    assert report["requeue"] is True
    assert report["step"] == int(ends[0][1])


def test_each_rank_gets_its_own_state_back_and_rank_0s_for_the_rest(tmp_path: Path) -> None:
    before = [["stop", "0", str(rank)] for rank in range(4)]
    for number in range(3):
        launch = Launch(tmp_path, number, lockstep=False)
        shared = " by rank 0" if number else " "
        assert [line.rstrip("\n") for line in launch.started()] == [
            f"start {step} {own}{shared}" for _, step, own in before
        ]
        tell(launch, "0")
        before = launch.ends()
        assert Store(tmp_path / "checkpoints").verify(int(before[0][1])).world_size == 4


def test_another_world_size_is_refused_or_gets_all_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Launch(tmp_path, 0, lockstep=False, speeds=(0.001, 0.001))
    launch.started()
    tell(launch, "0")
    ends = launch.ends()
    step, own = ends[0][1:]
    refused = Launch(tmp_path, 1, lockstep=False, speeds=(0.001, 0.001, 0.001))
    assert [rank.wait(60) for rank in refused.ranks] == [1, 1, 1]
    monkeypatch.setenv("RESHARD", "")
    wider = Launch(tmp_path, 2, lockstep=False, speeds=(0.001, 0.001, 0.001))
    assert wider.started()[2] == f"start {step} {own} by rank 0\n"
    assert wider.started() == [f"shards {own} {ends[1][2]}\n"] * 3
    tell(wider, "0")
    wider.ends()
