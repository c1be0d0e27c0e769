"""The profiler plugin in real NCCL, under PyTorch's data parallelism: two ranks, which may share one GPU."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint.adapters.shared_gpu import variables
from tests.lazily import imported
from tests.profiler.native.conftest import PROGRAMS, TIMEOUT, Stage
from tiresias.profiler import build
from tiresias.profiler.analysis import analyze
from tiresias.profiler.recordings import layout

torch = imported("torch")

RANKS, STEPS = 2, 60
pytestmark = [pytest.mark.slow]


def train(recording: dict[str, str], log: Path) -> list[str]:
    """Run the training; return what each rank printed."""
    if not torch.cuda.is_available():
        pytest.skip("NCCL needs a GPU, and PyTorch finds none")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(RANKS)}
    command = [sys.executable, str(PROGRAMS / "nccl_training.py"), str(STEPS)]
    with log.open("w") as errors:
        started = [
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ
                | address
                | variables(str(rank))
                | recording
                | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(RANKS)
        ]
    printed = [process.communicate(timeout=TIMEOUT)[0] for process in started]
    assert [process.returncode for process in started] == [0] * RANKS, log.read_text()
    return printed


def test_the_model_of_a_training_is_found_in_its_collectives(stage: Stage, tmp_path: Path) -> None:
    recording = {
        "NCCL_PROFILER_PLUGIN": str(build.libraries().nccl),
        "LD_PRELOAD": str(stage.net),
        "TIRESIAS_PROFILE_DIR": str(stage.folder),
    }
    parameters = int(train(recording, tmp_path / "log")[0].split()[0])
    recordings = stage.recordings()
    assert len(recordings) == RANKS
    for each in recordings:
        called = each.channels["kind"][each.records["channel"]] == layout.COLLECTIVE
        functions = each.channels["remote"][each.records["channel"]]["port"]
        reduced = each.records["asked"][called & (functions == layout.ALL_REDUCE)]
        assert reduced.sum() == pytest.approx(4 * parameters * STEPS, rel=0.01)
    profile = analyze(recordings)
    assert (profile.shape.kind, profile.shape.workers) == ("collective all-reduce", RANKS)
    assert profile.shape.model == 4 * parameters
    assert abs(profile.iterations - STEPS) <= 4
