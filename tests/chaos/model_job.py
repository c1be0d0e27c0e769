"""A job of the model of Slurm (slurm_model.py), and the model's constants."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiresias.slurm_plugin.backends.interface import NodeShare

NODES = ("gpu01", "gpu02")
GPUS = 4
REQUEUE_DELAY = 121.0
NO_LIMIT = 1000000  # max_nodes of a request whose owner has removed the limit
CLEAN_UP = 1.0  # seconds of COMPLETING
PARK_TIMEOUT = 90.0
ENDED = ("COMPLETED", "CANCELLED")
CONTROLLER, OWNER, ADMIN = "controller", "owner", "admin"  # holders


class Killed(BaseException):
    """SIGKILL of the controller, at any call."""


@dataclass(slots=True)
class ModelRun:
    """What really happened.

    Attributes:
        seen: A controller had it in a snapshot, in a cycle that nothing cut off.
        exact: Its end is known to the second.
        stepped: The clock was set meanwhile: its end is arbitrary.
    """

    restart: int
    start: int
    end: int = 0
    seen: bool = False
    exact: bool = False
    stepped: bool = False


@dataclass(slots=True)
class ModelJob:
    id: str
    gpus: int
    work: float  # seconds of running that are left
    habit: str  # good, slow (saves in 30 s), ignores, or dumb and restart: it never reports that it can save
    submitted: int
    account: str = ""
    state: str = "PENDING"
    completing_until: float = 0.0
    holder: str = ""
    restarts: int = 0
    submit_time: int = 0
    begin_time: float = 0.0
    start_time: int = 0
    end_time: int = 0
    max_nodes: int = 0
    after: str = ""  # key of the job on whose end it depends
    unknown_limit: bool = False  # a slurmctld that hides it was started with a clock that lay behind the submission
    hides_limit: bool = False  # its record shows no max_nodes: a new slurmctld, a failed node (22.05: any requeue)
    pin: tuple[str, ...] = ()  # required nodes, which are as many as it gets
    only: tuple[str, ...] = ()  # the nodes that it does not exclude; () for all
    shares: tuple[NodeShare, ...] = ()
    saving_until: float = 0.0
    parked_until: float = 0.0
    runs: list[ModelRun] = field(default_factory=list)

    @property
    def choice(self) -> str:
        """What tsbatch notes of its owner's choice (--opportunistic)."""
        return {"restart": "restart", "dumb": "yes"}.get(self.habit, "saves")

    @property
    def shown_limit(self) -> int:
        """max_nodes as the record has it."""
        return 0 if self.hides_limit else len(self.pin) or self.max_nodes

    @property
    def is_pinned(self) -> bool:
        """Whether its record shows the controller's pin."""
        return bool(self.pin or self.only)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The excluded nodes of its record."""
        return tuple(node for node in NODES if node not in self.only) if self.only else ()

    @property
    def completing(self) -> bool:
        return self.completing_until > 0

    @property
    def over(self) -> bool:
        return self.state in ENDED and not self.completing

    @property
    def key(self) -> str:
        return f"{self.id}@{self.submitted}"
