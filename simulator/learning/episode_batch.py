"""The samples of an episode as tensors: one row for each job, and one for each step of its agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.task_observation import FEATURES
from tiresias.simulator.learning.placement_episode import PlacedJob


class SelectedActions(NamedTuple):
    """What the agents selected from, padded to the largest partition: its servers, then all partitions.

    Attributes:
        choice: Features of the servers, shape (steps, servers, choice features).
        reach: Features of the partitions, shape (steps, partitions, reach features).
        allowed: What is feasible, shape (steps, servers + partitions).
        action: What was selected, shape (steps,).
        regret: By how much each action is worse than the best one, of the shape of `allowed`.
    """

    choice: torch.Tensor
    reach: torch.Tensor
    allowed: torch.Tensor
    action: torch.Tensor
    regret: torch.Tensor


class EpisodeBatch(NamedTuple):
    """The samples of an episode.

    Attributes:
        features: Of servers and switches before each job, shape (jobs, nodes, server features).
        inner, between: What the edges of the server graph and of the partition graph multiply (`Edges.weights`), of each job.
        job: The job of each step, shape (steps,).
        agent: The partition of its agent, shape (steps,).
        task: Features of the task, shape (steps, 1, task features).
        selected: The actions.
    """

    features: torch.Tensor
    inner: tuple[torch.Tensor, ...]
    between: tuple[torch.Tensor, ...]
    job: torch.Tensor
    agent: torch.Tensor
    task: torch.Tensor
    selected: SelectedActions

    @classmethod
    def of(cls, jobs: Sequence[PlacedJob], graphs: ClusterGraph) -> EpisodeBatch:
        """Return the batch of some samples."""
        links = np.stack([job.links for job in jobs])
        steps = [step for job in jobs for step in job.steps]
        return cls(
            torch.from_numpy(np.stack([job.features for job in jobs])),
            _tensors(graphs.inner.weights(links[:, graphs.inner_links])),
            _tensors(graphs.between.weights(links[:, graphs.between_links])),
            torch.from_numpy(np.repeat(np.arange(len(jobs)), [len(job.steps) for job in jobs])),
            torch.tensor([step.agent for step in steps]),
            torch.from_numpy(np.stack([step.task for step in steps])),
            _selected(jobs, graphs),
        )


def _tensors(arrays: tuple[Array, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(each) for each in arrays)


def _selected(jobs: Sequence[PlacedJob], graphs: ClusterGraph) -> SelectedActions:
    steps = [step for job in jobs for step in job.steps]
    partitions, widest = graphs.padded[0].shape
    choice = np.zeros((len(steps), widest, len(FEATURES["choice"])), np.float32)
    reach = np.zeros((len(steps), partitions, len(FEATURES["reach"])), np.float32)
    allowed, selected = np.zeros((len(steps), widest + partitions), np.bool_), np.zeros(len(steps), np.int64)
    regret = np.zeros(allowed.shape, np.float32)
    shown = ((action, each) for job in jobs for action, each in zip(job.actions, job.regrets, strict=True))
    for row, (step, (action, each)) in enumerate(zip(steps, shown, strict=True)):
        servers = len(step.choice)
        choice[row, :servers] = step.choice
        reach[row] = 0.0 if step.reach is None else step.reach
        for whole, part in ((allowed, step.allowed), (regret, each)):
            whole[row, :servers], whole[row, widest:] = part[:servers], part[servers:]
        selected[row] = action + (widest - servers if action >= servers else 0)
    return SelectedActions(*map(torch.from_numpy, (choice, reach, allowed, selected, regret)))
