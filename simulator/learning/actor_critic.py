"""Advantage actor-critic over the jobs of an episode, in PyTorch (marl-placement, section IV-C).

The return of a job is the negative sum of the costs from it on, discounted by job; all its tasks have it. The critic estimates the
return, and the actor is changed by the advantage: the return beyond that estimate.

The paper rewards each job by its training speed. The cost of a job is the sum of what its start takes from the speeds of all
running jobs at that moment, so that the jobs that it slows count, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from tiresias.scheduler.model import Floats, Ints
from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.placement_network import NetworkSizes, PlacementNetwork
from tiresias.simulator.learning.episode_batch import EpisodeBatch
from tiresias.simulator.learning.placement_episode import PlacedJob
from tiresias.simulator.learning.score_terms import ESTIMATED_COSTS, STARTS
from tiresias.simulator.learning.torch_operations import TorchOperations, begin_with, random_parameters, same_sums

PARAMETER, MOMENTS = "parameter", ("exp_avg", "exp_avg_sq")  # parts of a state
_NEVER = -1e9  # logit of an action that is not feasible
_LEAST_LOGARITHM = -30.0  # of a probability in the entropy


@dataclass(frozen=True, slots=True)
class LearningRates:
    """How the network learns.

    Attributes:
        step: Of Adam.
        discount: Of the cost of the next job.
        most_cost: A larger cost of a job counts as this one.
        entropy: Weight of the entropy of the policy.
        value: Weight of the critic's error.
        most_gradient: Norm of the gradient at most.
        updates: Updates by each episode.
        most_change: By how much the probability of an action may change by one episode, as a part of it, until it counts no more
            (Schulman et al., Proximal policy optimization, equation 7); the first update does not depend on it.
    """

    step: float = 2e-4
    discount: float = 0.9
    most_cost: float = 10.0
    entropy: float = 0.003
    value: float = 0.05
    most_gradient: float = 1.0
    updates: int = 5
    most_change: float = 0.2


class Losses(NamedTuple):
    """The losses of one update, and the mean entropy of the policy in nats."""

    actor: float
    critic: float
    entropy: float


class ActorCritic:
    """A network that learns.

    Args:
        sizes: Of the network.
        graphs: Of the cluster.
        seed: Of the first parameters; the same seed gives the same ones.
        rates: How it learns.

    Attributes:
        parameters: Of the network, by name.
        optimizer: Adam.
        updates: Number of updates so far.
    """

    def __init__(self, sizes: NetworkSizes, graphs: ClusterGraph, seed: int, rates: LearningRates) -> None:
        self._sizes, self._graphs, self._seed, self._rates = sizes, graphs, seed, rates
        self.parameters = random_parameters(sizes, seed)
        self.begin(ESTIMATED_COSTS)
        self.optimizer, self.updates = torch.optim.Adam(self.parameters.values(), rates.step), 0
        self._network = PlacementNetwork(sizes, self.parameters, TorchOperations())
        self._rows, self._present = (torch.from_numpy(each) for each in graphs.padded)

    def begin(self, name: str) -> None:
        """Begin with one of `score_terms.STARTS`; nothing has been learned yet."""
        for each, value in random_parameters(self._sizes, self._seed).items():
            self.parameters[each].data.copy_(value.detach())
        begin_with(self._sizes, self.parameters, STARTS[name])

    def weights(self) -> dict[str, Array]:
        """Return a copy of the parameters in numpy."""
        return {name: value.detach().numpy().copy() for name, value in self.parameters.items()}

    def state(self) -> dict[str, dict[str, Array]]:
        """Return the parameters and Adam's moments of them in numpy, as `restore` takes them."""
        found = {PARAMETER: self.weights()}
        for moment in MOMENTS:
            kept = {name: self.optimizer.state[value].get(moment) for name, value in self.parameters.items()}
            found[moment] = {
                name: np.zeros(self.parameters[name].shape, np.float32) if value is None else value.numpy().copy()
                for name, value in kept.items()
            }
        return found

    def restore(self, state: Mapping[str, Mapping[str, Array]], updates: int) -> None:
        """Go on from a state of the same network after so many updates."""
        self.updates = updates
        for name, value in self.parameters.items():
            value.data.copy_(torch.tensor(state[PARAMETER][name]))
            moments = {moment: torch.tensor(state[moment][name]) for moment in MOMENTS}
            self.optimizer.state[value] = {"step": torch.tensor(float(updates)), **moments} if updates else {}

    def imitate(self, jobs: Sequence[PlacedJob], rows: Ints | None = None) -> Losses:
        """Lower the expected regret, and fit the critic to the returns. Returns the losses before the update.

        The loss of the actor is the regret of its actions, expected by its probabilities (AggreVaTeD: Sun et al., ICML '17).

        Args:
            jobs: Of an episode, in order.
            rows: The jobs from which it learns; None: all.
        """
        batch, returns = self._batch(jobs, np.arange(len(jobs)) if rows is None else rows)
        logarithms, values = self._forward(batch)
        actor = (batch.selected.regret * logarithms.exp()).sum(-1).mean()
        return self._learn(actor, returns - values, _entropy(logarithms), 0.0)

    def learn(self, jobs: Sequence[PlacedJob], entropy: float | None = None) -> Losses:
        """Learn from the costs. Returns the losses before the first update. entropy: its weight; None: that of the rates."""
        (batch, returns), rates = self._batch(jobs, np.arange(len(jobs))), self._rates
        with torch.no_grad():
            logarithms, values = self._forward(batch)
        before, advantage = _of_actions(logarithms, batch), standardized(returns - values)
        losses, weight = list[Losses](), rates.entropy if entropy is None else entropy
        for _ in range(rates.updates):
            logarithms, values = self._forward(batch)
            actor = actor_loss(_of_actions(logarithms, batch) - before, advantage, rates.most_change)
            losses.append(self._learn(actor, returns - values, _entropy(logarithms), weight))
        return losses[0]

    def _batch(self, jobs: Sequence[PlacedJob], rows: Ints) -> tuple[EpisodeBatch, torch.Tensor]:
        """Return the batch of some jobs of an episode, and the return of each of their steps."""
        batch = EpisodeBatch.of([jobs[row] for row in rows.tolist()], self._graphs)
        returns = returns_of([job.cost for job in jobs], self._rates)[rows]
        return batch, torch.from_numpy(returns.astype(np.float32))[batch.job]

    def _learn(self, actor: torch.Tensor, beyond: torch.Tensor, entropy: torch.Tensor, weight: float) -> Losses:
        """Take one step of Adam."""
        critic = beyond.pow(2).mean()
        self.optimizer.zero_grad()
        with same_sums():
            (actor + self._rates.value * critic - weight * entropy).backward()  # type: ignore[no-untyped-call, unused-ignore]
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), self._rates.most_gradient)
        self.optimizer.step()
        self.updates += 1
        return Losses(float(actor.detach()), float(critic.detach()), float(entropy.detach()))

    def _forward(self, batch: EpisodeBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logarithms of the probabilities, shape (steps, actions), and the values, shape (steps,)."""
        network = self._network
        servers = network.embed_servers(self._graphs.inner, batch.inner, batch.features)
        partitions = self._partitions(batch, servers)
        own = partitions[torch.arange(len(batch.job)), batch.agent][:, None]
        there = servers[batch.job[:, None], self._rows[batch.agent]]
        inside = network.server_scores(there, batch.selected.choice, own, batch.task)
        beyond = network.forward_scores(partitions, batch.selected.reach, own, batch.task)
        logits = torch.where(batch.selected.allowed, torch.cat([inside, beyond], -1), _NEVER)
        return torch.log_softmax(logits, -1), network.value(partitions, own, batch.task)[:, 0]

    def _partitions(self, batch: EpisodeBatch, servers: torch.Tensor) -> torch.Tensor:
        """Return the embedded partitions of each step, shape (steps, partitions, partition_embedding)."""
        graphs, network = self._graphs, self._network
        pooled = network.pooled(servers[:, self._rows], self._present)[batch.job]
        between = tuple(each[batch.job] for each in batch.between)
        switches = torch.zeros(len(batch.job), graphs.upper_switches, self._sizes.width)
        found: torch.Tensor = network.embed_partitions(graphs.between, between, pooled, batch.task, switches)
        return found


def returns_of(costs: Sequence[float], rates: LearningRates) -> Floats:
    """Return the discounted return of each job, times 1 - discount, so that it is about minus a mean cost; shape (jobs,)."""
    found, later = np.zeros(len(costs)), 0.0
    for at in range(len(costs) - 1, -1, -1):
        later = -min(costs[at], rates.most_cost) + rates.discount * later
        found[at] = later
    return found * (1.0 - rates.discount)


def actor_loss(change: torch.Tensor, advantage: torch.Tensor, most: float) -> torch.Tensor:
    """Return the loss of the actor; where nothing has changed its gradient is that of minus the mean of advantage x logarithm.

    Args:
        change: Logarithm of the probability of each action now, minus that when it was selected, shape (steps,).
        advantage: Of each step.
        most: As `LearningRates.most_change`.
    """
    ratio = change.exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - most, 1.0 + most) * advantage).mean()


def standardized(values: torch.Tensor) -> torch.Tensor:
    """Return the values with mean 0 and standard deviation 1; all 0 where they are equal."""
    return (values - values.mean()) / (values.std(unbiased=False) + 1e-6)


def _of_actions(logarithms: torch.Tensor, batch: EpisodeBatch) -> torch.Tensor:
    return logarithms.gather(-1, batch.selected.action[:, None])[:, 0]


def _entropy(logarithms: torch.Tensor) -> torch.Tensor:
    return -(logarithms.exp() * logarithms.clamp(min=_LEAST_LOGARITHM)).sum(-1).mean()
