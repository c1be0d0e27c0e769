"""An episode of a training: every job of a workload is placed, by the network or by a teacher.

What the agents of each job selected from, and what followed, is one sample of a job (marl-placement, section IV-C).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.interference_table import UNKNOWN_KIND
from tiresias.scheduler.model import ANYWHERE, Floats
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.free_capacity import free
from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.learned_placement import embedded, job_terms
from tiresias.scheduler.place.learned.placement_agents import AgentStep, PlacementAgents, Select, best
from tiresias.scheduler.place.learned.task_observation import FEATURES, NODE_GPUS
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.scheduler.place.placement_context import PlacementContext
from tiresias.scheduler.place.placements import style_code
from tiresias.scheduler.place.placer import Placer
from tiresias.simulator.learning.placement_costs import PlacementCosts, parts_of
from tiresias.simulator.learning.training_plan import SEARCH
from tiresias.simulator.placement_environment import PlacementEnvironment

MOST_REGRET = 1.0  # the slowdown of a running job to half of its speed
_FEASIBLE_GPUS = FEATURES["choice"].index("feasible_gpus")


@dataclass(slots=True)
class PlacedJob:
    """A sample: one job, and what the agents selected for its tasks.

    Attributes:
        features: Of servers and switches before it, shape (nodes, server features).
        links: Features of each link, shape (links, 4).
        steps: What the agents selected from, in order.
        actions: What they selected.
        regrets: By how much each action is worse than the best one, 0 to MOST_REGRET, of the shape of `AgentStep.allowed`.
        cost: By how much its start raised the sum of the slowdowns of all running jobs, its own included.
    """

    features: Array
    links: Array
    steps: list[AgentStep] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    regrets: list[Array] = field(default_factory=list)
    cost: float = 0.0

    def record(self, step: AgentStep, action: int) -> int:
        """Append a step and its action, which is the best one. Returns the action."""
        self.steps.append(step)
        self.actions.append(action)
        self.regrets.append(MOST_REGRET * (np.arange(len(step.allowed)) != action))
        return action

    def correct(self, costs: Floats) -> None:
        """Set what each action of the last step costs."""
        self.regrets[-1] = np.minimum(costs - costs.min(), MOST_REGRET)


class PlayedEpisode(NamedTuple):
    """What happened in an episode.

    Attributes:
        jct: Completion times, seconds, shape (jobs,).
        jobs: The samples, in the order of the starts.
    """

    jct: Floats
    jobs: list[PlacedJob]


class PlacementEpisode:
    """Plays episodes in an environment.

    Args:
        environment: The cluster, its workload, and how jobs slow each other.
    """

    def __init__(self, environment: PlacementEnvironment) -> None:
        self._environment = environment

    def play(
        self, weights: PlacementWeights, seed: int, select: Select = best, teacher: str = "", is_corrected: bool = False
    ) -> PlayedEpisode:
        """Play one episode. The jobs start on the GPUs of the selected servers that the simulator would take.

        Args:
            weights: Of the network whose agents place the jobs.
            seed: Of the workload.
            select: Selects the actions of the agents.
            teacher: SEARCH or a placement style; then the jobs start where it places them, and the agents select what leads there.
                "": they select freely.
            is_corrected: The samples are those of the teacher, and the jobs start where `select` places them, so that the network
                imitates the teacher in the states to which its own placements lead (Ross et al., AISTATS '11).
        """
        environment, jobs = self._environment, list[PlacedJob]()
        environment.reset(seed)
        while not environment.done:
            job, placement = self._placed(weights, select, teacher, is_corrected)
            assert placement, "the environment starts jobs that fit"
            job.cost = self._start(placement)
            jobs.append(job)
        return PlayedEpisode(environment.outcome().jct, jobs)

    def _placed(
        self, weights: PlacementWeights, select: Select, teacher: str, is_corrected: bool
    ) -> tuple[PlacedJob, Placement | None]:
        """Return the sample of the next job and its placement."""
        candidates, shown = self._candidates(teacher)
        cluster = embedded(weights, candidates.context)
        terms = job_terms(ANYWHERE, self._environment.observe().gpus, candidates.context)
        agents = PlacementAgents(cluster, terms, candidates.fit, select, weights.tasks)
        job = PlacedJob(cluster.features, cluster.links)
        if teacher == SEARCH:
            agents.select = self._by_costs(job, agents, is_corrected)
            return job, agents.place()
        action = _leading_to(shown, cluster.graphs) if shown else select
        agents.select = lambda step: job.record(step, action(step))
        placement = agents.place()
        if is_corrected:
            agents.select = select
            return job, agents.place()
        return job, shown or placement

    def _by_costs(self, job: PlacedJob, agents: PlacementAgents, is_corrected: bool) -> Select:
        """Return a choice of the actions with the least costs; is_corrected: of those that the agents select."""
        costs, select = PlacementCosts(self._environment, agents.cluster.graphs), agents.select

        def by_costs(step: AgentStep) -> int:
            of_actions = costs.of_actions(step, agents.shares)
            action = job.record(step, select(step) if is_corrected else int(of_actions.argmin()))
            job.correct(of_actions)
            return action

        return by_costs

    def _candidates(self, teacher: str) -> tuple[CandidateNodes, Placement | None]:
        """Return the nodes on which the next job may be placed, and its placement by a teacher, if one is given."""
        snapshot, view = self._environment.snapshot(), self._environment.observe()
        kinds = snapshot.jobs.interference_kind
        job_kind = UNKNOWN_KIND if kinds is None else int(kinds[snapshot.jobs.id.index(str(view.row))])
        placer = Placer(snapshot)
        space = placer.space(free(snapshot.nodes))
        style = teacher if teacher not in ("", SEARCH) else "learned"
        kind = placer.kind(ANYWHERE, style_code(style), job_kind=job_kind)
        candidates = space.candidates(kind)
        candidates.context = PlacementContext(kind, space, placer.surroundings)
        return candidates, placer.place(kind, view.gpus, space) if style == teacher else None

    def _start(self, placement: Placement) -> float:
        """Place the tasks of a job, which then starts. Returns its cost."""
        environment, view = self._environment, self._environment.observe()
        groups = [
            part.server * environment.cluster.sockets_per_node + socket
            for part in parts_of(view, placement)
            for socket, count in enumerate(part.gpus)
            for _ in range(count)
        ]
        return [environment.step(group) for group in groups][-1].slowdown


def _leading_to(placement: Placement, graphs: ClusterGraph) -> Select:
    """Return a choice of actions that leads to a placement, or near it where a server would get more GPUs at once than there."""
    left = dict(placement)

    def select(step: AgentStep) -> int:
        servers = graphs.parts[step.agent].servers.tolist()
        given = np.rint(step.choice[:, _FEASIBLE_GPUS] * NODE_GPUS).astype(np.int64).tolist()
        inside = [at for at, node in enumerate(servers) if left.get(node) and step.allowed[at]]
        if not inside:
            node = next(node for node, share in left.items() if share)
            return len(servers) + int(graphs.partition[node])
        found = next((at for at in inside if given[at] <= left[servers[at]]), inside[0])
        left[servers[found]] -= min(given[found], left[servers[found]])
        return found

    return select
