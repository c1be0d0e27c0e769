"""The training of a network, episode by episode (marl-placement, section IV-C). It can be interrupted after each episode.

In the first episodes the network learns to imitate a style, in the states to which its own placements lead, too. In all others it
places the jobs, by chance of its probabilities, and learns from the costs. Every `VALIDATION_INTERVAL` episodes it places the jobs
of other workloads, and the weights with the lowest mean completion time there are kept. Before the first episode, the better one of
`STARTS` is selected in the same way. All follows from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tiresias.scheduler.place.learned.cluster_graph import TIER_BANDWIDTHS, graphs_of
from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.placement_agents import AgentStep, Select
from tiresias.scheduler.place.learned.task_observation import FEATURES, network_sizes
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.simulator.learning.actor_critic import MOMENTS, PARAMETER, ActorCritic, LearningRates, Losses
from tiresias.simulator.learning.placement_episode import PlacementEpisode, PlayedEpisode
from tiresias.simulator.learning.score_terms import ESTIMATED_COSTS, STARTS
from tiresias.simulator.learning.training_plan import SINGLE, TrainingPlan
from tiresias.simulator.learning.workload_seeds import training_seed, validation_seeds
from tiresias.simulator.placement_environment import PlacementEnvironment

VALIDATION_INTERVAL = 10  # episodes
IMITATION_PASSES, IMITATED_JOBS = 3, 40  # over the jobs of an episode that is imitated; of one update
_BEST = "best"
_PARTS = (PARAMETER, *MOMENTS, _BEST)  # of a state
_SHOWN = 2  # the first episodes, in which the jobs start where the style places them, and not where the network does


class EpisodeRecord(NamedTuple):
    """A point of the learning curves.

    Attributes:
        jct: Mean completion time in the episode, seconds.
        cost: Mean cost of its jobs.
        actor, critic, entropy: Losses before the first update by the episode; by a demonstration, before the last one.
        validation: Mean completion time of the validation workloads, seconds; nan: not validated after this episode.
    """

    jct: float
    cost: float
    actor: float
    critic: float
    entropy: float
    validation: float


class PlacementTraining:
    """A training, and all of its state.

    Args:
        environment: The cluster, and the workload of each seed.
        plan: What is done.

    Attributes:
        plan: As given.
        curve: A record for each episode so far.
        start: The one of `score_terms.STARTS` with which the network began.
        reference: Mean completion time of the validation workloads by the imitated style, seconds; nan before the first episode.
        best: The weights with the lowest validated completion time; None: not validated yet.
    """

    def __init__(self, environment: PlacementEnvironment, plan: TrainingPlan) -> None:
        self.plan, self._episode = plan, PlacementEpisode(environment)
        network = environment.cluster.network
        self._bandwidths = network.tier_bandwidths if network else TIER_BANDWIDTHS
        self._graphs = graphs_of(environment.cluster.topology(), plan.level, self._bandwidths)
        self._sizes = network_sizes(server_layers=plan.layers, partition_layers=0 if plan.agents == SINGLE else 2)
        self._learner = ActorCritic(self._sizes, self._graphs, plan.seed, LearningRates(step=plan.rate))
        self.curve: list[EpisodeRecord] = []
        self.start, self.reference = ESTIMATED_COSTS, math.nan
        self.best: PlacementWeights | None = None

    @property
    def is_done(self) -> bool:
        """Whether all episodes of the plan are over."""
        return len(self.curve) >= self.plan.episodes

    def advance(self) -> EpisodeRecord:
        """Play one episode and learn from it. Returns its record."""
        if not self.curve:
            self.reference = self._validated(self.plan.teacher)
            self._begin()
        episode = len(self.curve)
        played, losses = self._imitated(episode) if episode < self.plan.demonstrations else self._learned(episode)
        validation = self._keep_best(episode + 1) if self._is_validated(episode) else math.nan
        cost = float(np.mean([job.cost for job in played.jobs]))
        self.curve.append(EpisodeRecord(float(played.jct.mean()), cost, *losses, validation))
        return self.curve[-1]

    def curve_of(self, name: str) -> tuple[list[int], list[float]]:
        """Return the episodes, counted from 1, and the values of a field of their records where it is not nan."""
        values = [float(getattr(record, name)) for record in self.curve]
        shown = [at for at, value in enumerate(values) if not math.isnan(value)]
        return [at + 1 for at in shown], [values[at] for at in shown]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array of a state by its name."""
        return {f"{part}.{name}": shape for part in _PARTS for name, shape in self._sizes.shapes().items()}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what `restore` needs: plain values, and arrays by name."""
        best = self.best or self._weights()
        parts = {**self._learner.state(), _BEST: best.parameters}
        arrays = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        described = {
            "plan": self.plan.described(), "updates": self._learner.updates, "curve": [list(record) for record in self.curve],
            "start": self.start, "reference": self.reference, "best": dict(best.training),
        }  # fmt: skip
        return described, arrays

    def restore(self, described: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Go on from a state of the same plan. Raises KeyError, TypeError, ValueError or OverflowError for impossible values."""
        curve = [EpisodeRecord(*map(float, record)) for record in described["curve"]]
        reference, updates, best = float(described["reference"]), int(described["updates"]), dict(described["best"])
        start = str(described["start"])
        if start not in STARTS:
            raise ValueError("no start of this version")
        parts = {part: {name: arrays[f"{part}.{name}"] for name in self._sizes.shapes()} for part in _PARTS}
        if best:
            best |= {"validation_jct": float(best["validation_jct"]), "trained_episodes": int(best["trained_episodes"])}
            self.best = self._weights(parts[_BEST], best)
        self.curve, self.start, self.reference = curve, start, reference
        self._learner.restore(parts, updates)

    def _begin(self) -> None:
        """Begin with the scores that are validated best."""
        found = {}
        for self.start in STARTS:
            self._learner.begin(self.start)
            found[self.start] = self._keep_best(0)
        self.start = min(found, key=lambda name: found[name])
        self._learner.begin(self.start)

    def _imitated(self, episode: int) -> tuple[PlayedEpisode, Losses]:
        seed = training_seed(self.plan.seed, episode)
        played = self._episode.play(self._weights(), seed, teacher=self.plan.teacher, is_corrected=episode >= _SHOWN)
        chance, losses = np.random.default_rng((self.plan.seed, episode)), list[Losses]()
        for _ in range(IMITATION_PASSES):
            rows = chance.permutation(len(played.jobs))
            parts = np.array_split(rows, -(-len(rows) // IMITATED_JOBS))
            losses.extend(self._learner.imitate(played.jobs, part) for part in parts)
        return played, losses[-1]

    def _learned(self, episode: int) -> tuple[PlayedEpisode, Losses]:
        select = by_chance(np.random.default_rng((self.plan.seed, episode)))
        played = self._episode.play(self._weights(), training_seed(self.plan.seed, episode), select)
        return played, self._learner.learn(played.jobs, self.plan.entropy_weight(episode))

    def _is_validated(self, episode: int) -> bool:
        done = episode + 1
        return done % VALIDATION_INTERVAL == 0 or done in (self.plan.demonstrations, self.plan.episodes)

    def _keep_best(self, episodes: int) -> float:
        """Validate the network, and keep its weights if they are the best ones. Returns the mean completion time.

        Args:
            episodes: How many it has had.
        """
        found = self._validated()
        if self.best is None or found < self.best.training["validation_jct"]:
            described = {
                **self.plan.described(),
                "start": self.start,
                "trained_episodes": episodes,
                "validation_jct": found,
            }
            self.best = self._weights(training=described)
        return found

    def _validated(self, teacher: str = "") -> float:
        weights = self._weights()
        return float(
            np.mean([self._episode.play(weights, seed, teacher=teacher).jct.mean() for seed in validation_seeds()])
        )

    def _weights(
        self, parameters: dict[str, Any] | None = None, training: dict[str, Any] | None = None
    ) -> PlacementWeights:
        fingerprint, found = self._graphs.fingerprint, parameters or self._learner.weights()
        return PlacementWeights(
            self._sizes,
            found,
            FEATURES,
            self.plan.level,
            self._bandwidths,
            fingerprint,
            training or {},
            self.plan.tasks,
        )


def by_chance(chance: np.random.Generator) -> Select:
    """Return a choice of actions by the probabilities of the network."""

    def select(step: AgentStep) -> int:
        scores = np.where(step.allowed, step.scores, -np.inf).astype(np.float64)
        share = np.exp(scores - scores.max())
        return int(chance.choice(len(share), p=share / share.sum()))

    return select
