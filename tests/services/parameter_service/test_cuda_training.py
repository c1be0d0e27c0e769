"""Training on a GPU through the service: CUDA parameters, a stream of the program's own, DDP over NCCL with the hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoint.adapters.shared_gpu import variables
from tests.services.parameter_service.conftest import Deployment, free_port
from tests.services.parameter_service.test_training import BAR, move_each_tensor

pytest.importorskip("torch", reason="the agent is for PyTorch programs")

import torch

from tests.services.parameter_service.training import (
    OPTIMIZERS,
    RANKS,
    STEPS,
    Training,
    alone,
    backward,
    difference,
    network,
)
from tiresias.services.parameter_service.agent import ParameterServiceOptimizer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU, and PyTorch finds none")
PROGRAM = "tests.services.parameter_service.cuda_hook_rank"
TIMEOUT_S = 240.0


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """The same kernels each time, without TF32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def updated_on_the_cpu(kind: str) -> torch.nn.Module:
    """One process: gradients of the GPU, and torch.optim on the CPU, as in the service."""
    model, master = network("cuda"), network()
    optimizer = OPTIMIZERS[kind](master.parameters())
    for step in range(STEPS):
        gradients = []
        for rank in range(RANKS):
            model.zero_grad()
            backward(model, step, rank)
            gradients.append([parameter.grad.cpu() for parameter in model.parameters()])
        for parameter, *ranks in zip(master.parameters(), *gradients, strict=True):
            parameter.grad = sum(ranks[1:], ranks[0]) / RANKS
        optimizer.step()
        model.load_state_dict(master.state_dict())
    return model


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_200_steps_equal_one_process(deployment: Deployment, kind: str) -> None:
    training = Training(kind, deployment.job("job", RANKS, deployment.aggregator()), device="cuda")
    first, second = training.train()
    assert difference(first, second) == 0
    found = {"cpu": difference(first, updated_on_the_cpu(kind)), "cuda": difference(first, alone(kind, device="cuda"))}
    print(f"{kind}: differs by {found['cpu']:.1e} from torch.optim on the CPU, by {found['cuda']:.1e} on the GPU")
    assert max(found.values()) <= BAR
    if kind in {"sgd", "momentum", "nesterov"}:  # the same rounding in each operation
        assert found["cpu"] == 0


def test_a_migration_each_20th_step_changes_nothing(deployment: Deployment) -> None:
    one, two = deployment.aggregator(), deployment.aggregator()
    training = Training("adam", deployment.job("job", RANKS, one, two), device="cuda", block_bytes=1024)
    for step in range(20, STEPS, 20):
        training.before[step] = lambda: move_each_tensor(deployment, one, two)
    first, _ = training.train()
    assert difference(first, updated_on_the_cpu("adam")) <= BAR


def test_a_checkpoint_of_a_gpu_resumes(deployment: Deployment) -> None:
    job = deployment.job("job", RANKS, deployment.aggregator())
    first = Training("momentum", job, device="cuda")
    first.train(0, 120)
    second = Training("momentum", job, run=1, device="cuda")

    def restore(model: torch.nn.Module, optimizer: ParameterServiceOptimizer) -> None:
        optimizer.load_state_dict(first.saved["optimizer"])
        model.load_state_dict(first.saved["model"])

    second.train(120, STEPS, restore)
    assert difference(second.models[0], updated_on_the_cpu("momentum")) == 0


def test_large_tensors_on_a_stream_of_the_program(deployment: Deployment) -> None:
    """The copies of 64 MiB take longer than the kernels, so that a copy that waits for no event has other bytes."""
    place = deployment.aggregator()
    job = deployment.job("job", 1, place, memory_bytes=1 << 30)
    models = [wide_network() for _ in range(2)]
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3, momentum=0.9) for each in models]
    served = ParameterServiceOptimizer(optimizers[0], models[0], job=job(0))
    inputs = torch.randn(20, 64, 2048, device="cuda", generator=torch.Generator("cuda").manual_seed(3))
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        for each in inputs:
            for model, optimizer in zip(models, (served, optimizers[1]), strict=True):
                optimizer.zero_grad()
                model(each).square().mean().backward()
                optimizer.step()
        torch.cuda.synchronize()
    served.close()
    assert difference(*models) <= BAR


def wide_network() -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        layers = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4)))
    return layers.cuda()


def test_the_hook_of_ddp_over_nccl_averages(deployment: Deployment, tmp_path: Path) -> None:
    """Two processes on a GPU: the parameters are those of DDP's own all-reduce over NCCL."""
    file = deployment.job("job", RANKS, deployment.aggregator())(0).file
    found = {how: trained_ranks(how, file, tmp_path) for how in ("hook", "nccl")}
    assert torch.equal(*found["hook"])
    assert torch.equal(found["hook"][0], found["nccl"][0]), "a sum of two numbers is the same in any order"


def trained_ranks(how: str, job_file: Path, folder: Path) -> list[torch.Tensor]:
    ports = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS)}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", PROGRAM, how, str(folder / f"{how}-{rank}.pt")],
            env=os.environ
            | ports
            | variables(str(rank))
            | {"RANK": str(rank), "TIRESIAS_PARAMETER_SERVICE": str(job_file)},
            cwd=Path(__file__).parents[3],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    problems = [process.communicate(timeout=TIMEOUT_S)[1] for process in started]
    assert [process.returncode for process in started] == [0] * RANKS, json.dumps(problems)
    return [torch.load(folder / f"{how}-{rank}.pt", weights_only=True) for rank in range(RANKS)]
