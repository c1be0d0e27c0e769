"""A small training of two ranks in threads, and the same training in one process with torch.optim."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tiresias.services.parameter_service.agent import ParameterServiceOptimizer
from tiresias.services.parameter_service.agent.service_job import ServiceJob

STEPS, RANKS = 200, 2
OPTIMIZERS: dict[str, Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, dampening=0.1, weight_decay=1e-3),
    "nesterov": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, nesterov=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, weight_decay=1e-2),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}
_GENERATOR = torch.Generator().manual_seed(5)
INPUTS = torch.randn(STEPS, RANKS, 8, 16, generator=_GENERATOR)
TARGETS = torch.randn(STEPS, RANKS, 8, 4, generator=_GENERATOR)
torch.set_num_threads(1)


def network(device: str = "cpu") -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4))
    return layers.to(device)


def backward(model: torch.nn.Module, step: int, rank: int) -> None:
    device = next(model.parameters()).device
    torch.nn.functional.mse_loss(model(INPUTS[step, rank].to(device)), TARGETS[step, rank].to(device)).backward()


def alone(kind: str, steps: int = STEPS, device: str = "cpu") -> torch.nn.Module:
    """One process: the average of both ranks' gradients, and torch.optim."""
    model = network(device)
    optimizer = OPTIMIZERS[kind](model.parameters())
    for step in range(steps):
        gradients = []
        for rank in range(RANKS):
            model.zero_grad()
            backward(model, step, rank)
            gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        for parameter, *ranks in zip(model.parameters(), *gradients, strict=True):
            parameter.grad = sum(ranks[1:], ranks[0]) / RANKS
        optimizer.step()
    return model


class Training:
    """The ranks of a job; `before[step]` runs on rank 0 before that step."""

    def __init__(
        self, kind: str, job: Callable[..., ServiceJob], run: int = 0, device: str = "cpu", **options: Any
    ) -> None:
        self._kind, self._job, self._run, self._options = kind, job, run, options
        self.models = [network(device) for _ in range(RANKS)]
        self.before: dict[int, Callable[[], Any]] = {}
        self.saved: Any = None
        self.problems: list[Exception] = []

    def train(self, first: int = 0, last: int = STEPS, restore: Any = None) -> list[torch.nn.Module]:
        threads = [threading.Thread(target=self._rank, args=(rank, first, last, restore)) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.problems:
            raise self.problems[0]
        return self.models

    def _rank(self, rank: int, first: int, last: int, restore: Any) -> None:
        try:
            self._steps(rank, first, last, restore)
        except Exception as error:
            self.problems.append(error)

    def _steps(self, rank: int, first: int, last: int, restore: Any) -> None:
        model = self.models[rank]
        inner = OPTIMIZERS[self._kind](model.parameters())
        optimizer = ParameterServiceOptimizer(inner, model, job=self._job(rank, self._run), **self._options)
        if restore is not None:
            restore(model, optimizer)
        for step in range(first, last):
            if rank == 0 and step in self.before:
                self.before[step]()
            optimizer.zero_grad()
            backward(model, step, rank)
            optimizer.step()
        if rank == 0:
            self.saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        optimizer.close()


def difference(one: torch.nn.Module, two: torch.nn.Module) -> float:
    """The largest difference, relative to the largest parameter of the same tensor."""
    pairs = zip(one.parameters(), two.parameters(), strict=True)
    return max(float(((a - b).abs().max() / b.abs().max()).detach()) for a, b in pairs)
