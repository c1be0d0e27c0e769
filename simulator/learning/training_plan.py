"""What a training does; it needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.place.learned.cluster_graph import WHOLE
from tiresias.scheduler.place.learned.placement_agents import SERVER
from tiresias.scheduler.topology_tree import LEAF

SEARCH = "search"
PARTITION, SINGLE = "partition", "single"
AGENTS = {PARTITION: LEAF, SINGLE: WHOLE}  # the level of which each group has an agent


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What a training does, apart from the cluster.

    Attributes:
        episodes: All of them, those of imitation included.
        seed: Of all random numbers, 0 or more.
        agents: "partition": an agent for each leaf switch; "single": one for the whole cluster.
        tasks: What an agent places at once: "gpu", or "server" for as many GPUs of the job as the server can hold.
        teacher: What the first episodes imitate: SEARCH (`placement_costs.py`) or a placement style.
        demonstrations: Their number.
        layers: Of the server graph.
        rate: Of Adam.
        entropy: Weight of the entropy in the first episode; it decreases linearly to 0 in the last one.
        topology: Its name.
        cluster: A fingerprint of the cluster and of how jobs slow each other.
        arrivals: Of the jobs, in words.
        jobs: Of each workload.
        load: Of each workload.
    """

    episodes: int = 200
    seed: int = 1
    agents: str = PARTITION
    tasks: str = SERVER
    teacher: str = SEARCH
    demonstrations: int = 50
    layers: int = 2
    rate: float = 2e-4
    entropy: float = 0.003
    topology: str = ""
    cluster: str = ""
    arrivals: str = ""
    jobs: int = 200
    load: float = 0.7

    @property
    def level(self) -> str:
        """The level of the topology of which each group has an agent."""
        return AGENTS[self.agents]

    def entropy_weight(self, episode: int) -> float:
        """Return the weight of the entropy in an episode."""
        return self.entropy * max(1.0 - episode / self.episodes, 0.0)

    def check_continues(self, before: Mapping[str, Any]) -> None:
        """Check that a training with the plan `before`, as `described` returns it, can go on as this one: only the number of
        episodes and the name of the topology may differ.

        Raises:
            UsageError: Another value differs.
        """
        for name, value in self.described().items():
            if name not in ("episodes", "topology") and before.get(name) != value:
                was = repr(before.get(name))[:60]
                raise UsageError(
                    f"the checkpoint is of a training with {name} {was}, not {value!r}; give the same options"
                )

    def described(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return asdict(self)
