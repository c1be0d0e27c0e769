"""DDP of several processes whose gradients the service averages: equal to one process, while buckets change and a rank dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.services.parameter_service.conftest import Deployment, free_port

pytest.importorskip("torch", reason="the agent is for PyTorch programs")

import torch

from tests.services.parameter_service.training import RANKS, backward, network

PROGRAM = "tests.services.parameter_service.ddp_rank"
TIMEOUT_S, PUSH_TIMEOUT_S = 240.0, 3.0


def start(
    how: str, steps: int, job_file: Path, folder: Path, run: int = 0, **of_rank_1: str
) -> list[subprocess.Popen[str]]:
    ports = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(RANKS),
        "TORCHELASTIC_RESTART_COUNT": str(run),
    }
    folder.mkdir(exist_ok=True)
    return [
        subprocess.Popen(
            [sys.executable, "-m", PROGRAM, how, str(steps), str(folder)],
            env=os.environ
            | ports
            | {"RANK": str(rank), "TIRESIAS_PARAMETER_SERVICE": str(job_file), "OMP_NUM_THREADS": "1"}
            | (of_rank_1 if rank else {}),
            cwd=Path(__file__).parents[3],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]


def trained(how: str, steps: int, job_file: Path, folder: Path, run: int = 0) -> torch.Tensor:
    processes = start(how, steps, job_file, folder, run)
    problems = [process.communicate(timeout=TIMEOUT_S)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * RANKS, problems
    first, second = (torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(RANKS))
    assert torch.equal(first, second)
    return first


def alone(steps: int) -> torch.Tensor:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(steps):
        gradients = []
        for rank in range(RANKS):
            model.zero_grad()
            backward(model, step, rank)
            gradients.append([each.grad.clone() for each in model.parameters()])
        for parameter, *ranks in zip(model.parameters(), *gradients, strict=True):
            parameter.grad = sum(ranks[1:], ranks[0]) / RANKS
        optimizer.step()
    return torch.cat([each.detach().view(-1) for each in model.parameters()])


def test_two_processes_are_one_process(deployment: Deployment, tmp_path: Path) -> None:
    """With aggregators and with DDP's own all-reduce; no tensor of the first step's buckets is left over."""
    places = [deployment.aggregator() for _ in range(2)]
    file = deployment.job("job", RANKS, *places)(0).file
    weights = trained("hook", 30, file, tmp_path / "hook")
    assert torch.equal(weights, alone(30))
    assert torch.equal(weights, trained("gloo", 30, file, tmp_path / "gloo")), "a sum of two numbers has one order"
    tensors = {name: each for place in places for name, each in deployment.tensors(place, "job").items()}
    assert len(tensors) == len(list(network().parameters()))
    assert {each["version"] for each in tensors.values()} == {30}
    assert all(deployment.tensors(place, "job") for place in places)


def test_a_killed_rank_ends_the_others_in_one_line_and_the_job_resumes(deployment: Deployment, tmp_path: Path) -> None:
    file = deployment.job("job", RANKS, deployment.aggregator(), push_timeout_s=PUSH_TIMEOUT_S)(0).file
    survivor, killed = start("hook", 40, file, tmp_path, TEST_KILL_AT="25")
    killed.communicate(timeout=TIMEOUT_S)
    assert killed.returncode == -signal.SIGKILL
    began = time.monotonic()
    problem = survivor.communicate(timeout=TIMEOUT_S)[1]
    assert time.monotonic() - began < PUSH_TIMEOUT_S + 15
    assert survivor.returncode != 0
    (line,) = [line for line in problem.splitlines() if line.startswith("tiresias: parameter service: ")]
    assert line.endswith(f": rank 1 has not pushed step 25 within {PUSH_TIMEOUT_S:g} s")
    assert torch.equal(trained("hook", 40, file, tmp_path, run=1), alone(40))
