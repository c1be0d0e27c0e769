"""What the controller needs from Slurm, in Slurm's words: one snapshot, the operations on jobs, and none that cancels a job.

Job ids are strings as squeue's %i prints them: "123", or "123_4" for an array task, whether the array is already split or not,
so that a task keeps one name through its life. (Grammar: squeue(1), JOBID.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules

# The highest numbers have special meanings in Slurm. This one marks the controller's; administrators are unlikely to use it.
TOP_PRIORITY = 4_294_967_290
# A requeued job waits for 121 s, or SchedulerParameters=requeue_delay. A begin time that is further from the requeue is set by
# the job's owner.
REQUEUE_WAIT_S = 600


class SlurmUnavailable(Unavailable):
    """slurmctld did not answer in time; the call may or may not have taken effect."""


class TimedOut(SlurmUnavailable):
    """One of Slurm's commands did not end in time; slurmctld may answer others."""


class JobRefused(TiresiasError):
    """Slurm refused this operation for this job now, with Slurm's own message; other jobs are not affected."""


class NotSignalled(JobRefused):
    """slurmctld does not deliver a signal to this running job now; whether the job got one is not known."""


class NoSuchJob(JobRefused):
    """Slurm has no record of the job, or no longer."""


class NotRequeueable(JobRefused):
    """srun or salloc allocation, or submitted with --no-requeue: never to be preempted."""


CommentField = Literal["AdminComment", "Comment"]  # scontrol's names of them


class Comments(NamedTuple):
    """The comments of one record of Slurm's. admin: only an Administrator may set it. user: of its owner, from --comment."""

    admin: str
    user: str

    def of(self, field: CommentField) -> str:
        """Return the comment in that field."""
        return self.admin if field == "AdminComment" else self.user


NO_COMMENTS = Comments("", "")


@dataclass(frozen=True, slots=True)
class NodeShare:
    """What a job holds on one node.

    Attributes:
        gpu_indexes: The GRES indexes where Slurm shows them.
        gpu_types: (type, count) of the GPUs; () where one has no type.
        shared_gpus: GRES indexes of the GPUs of which it holds a part (gres/shard, gres/mps).
    """

    node: str
    gpus: int
    cpus: int
    memory: int  # MB
    gpu_indexes: tuple[int, ...] = ()
    gpu_types: tuple[tuple[str, int], ...] = ()
    shared_gpus: tuple[int, ...] = ()


class StatedGpus(NamedTuple):
    """GPUs as an option of a request states them.

    Attributes:
        per: job (--gpus), node (--gres, --gpus-per-node), task (--gpus-per-task) or socket (--gpus-per-socket).
        gpus: Number of GPUs.
        kind: GPU type; "": any.
        beside: What else the option states, such as cpu=2.
    """

    per: str
    gpus: int
    kind: str = ""
    beside: str = ""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job, array task or het component. Moments are epoch seconds, 0 where Slurm has none."""

    id: str
    raw_id: int  # the record's own number; an unsplit array's tasks share it
    array_id: int  # 0 for a job that is no array task
    het_id: int  # 0 for a job that is no het component
    name: str
    user: str
    uid: int
    account: str
    partition: str
    state: str  # base: PENDING, RUNNING, SUSPENDED, COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL, PREEMPTED, ...
    completing: bool  # COMPLETING flag: its nodes are not free yet
    reason: str  # JobHeldAdmin, JobHeldUser, BeginTime, Resources, Priority, Dependency, ...
    priority: int  # 0: held
    restarts: int
    submit_time: int
    begin_time: int
    start_time: int  # of the run that goes on or has ended; 0 while PENDING (COMPLETING or not)
    end_time: int  # 0 while RUNNING; PENDING after a requeue: when the last run ended, 0 where that is not known
    time_limit: int  # seconds, 0: unlimited
    gpus: (
        int  # all GPUs asked for (pending) or held (running); 0: it asks for none, though --exclusive may give it some
    )
    gpu_type: str
    gpus_per_node: int  # 0 unless the request fixes it
    min_nodes: int  # the request's while PENDING; while it runs the nodes it has, while COMPLETING those left
    max_nodes: int  # the request's while PENDING; 0: not limited
    cpus: int  # all CPUs asked for
    memory_per_node: int  # MB, 0: not stated this way
    memory_per_cpu: int  # MB, 0: not stated this way
    features: str  # the constraint expression, as given
    required_nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...]
    shares: tuple[NodeShare, ...]  # empty unless it holds nodes
    requeue: bool  # false: --no-requeue
    batch: bool  # false: srun or salloc allocation
    reservation: str
    dependency: str
    exit_code: int  # as a shell would see it; -1 while there is none
    script: str = ""  # hash of the user's script, of a job that tsbatch submitted
    opportunistic: str = ""  # the owner's choice that tsbatch noted (protocol/opportunistic_choice.py); "": not known
    elastic: str = ""  # the sizes that tsbatch noted (protocol/elastic_sizes.py); "": not known
    command: str = (
        ""  # the script's path as it was submitted, "" of --wrap and standard input; 22.05 adds the arguments
    )
    qos: str = ""
    licenses: str = ""  # as given: name, name:2, name@server:2, joined with commas (all) or bars (any)
    array_limit: int = 0  # tasks of its array at once (%N); 0: not limited, or another record of the array shows it
    exclusive: bool = False  # --exclusive: it gets whole nodes
    sharing: str = ""  # the GRES by which it asks for a part of a GPU: shard or mps
    unmanaged: str = ""  # why its record alone shows that it cannot be managed (bounds.py)
    readable: bool = True  # false: its record could not be read, and all that is known is its id (unreadable.py)
    tasks: int = 1  # all of the request; 1 where it states none
    tasks_per_node: int = 0  # 0: not stated
    tasks_per_socket: int = 0  # 0: not stated
    tasks_per_gpu: int = 0  # 0: not stated, or Slurm 22.05, which does not show it
    cpus_per_task: int = 0  # 0: not stated
    cpus_each_node: int = 0  # at least so many on each node
    gpus_per_socket: int = 0  # 0: not stated this way
    has_cpus_per_gpu: bool = False  # stated; pyslurm does not show how many
    # The GPUs of the request, option by option; () where one states several types. Not of all back ends: Backend.stated_gpus.
    stated_gpus: tuple[StatedGpus, ...] = ()
    nice: int = 0  # --nice, as of the newest change of the record that the back end detects
    # As of the newest change of the record that the back end detects; a change of a comment alone is none (Backend.comments).
    comments: Comments = NO_COMMENTS

    @property
    def begins_after_requeue(self) -> bool:
        """Its begin time is the one that Slurm gives a requeued job. The submit time of such a job is the end of its last run."""
        return self.restarts > 0 and self.begin_time - self.submit_time <= REQUEUE_WAIT_S

    @property
    def held_by_admin(self) -> bool:
        """Whether it is pending under an administrator's hold."""
        return self.state == "PENDING" and self.priority == 0 and self.reason != "JobHeldUser"

    @property
    def held_by_user(self) -> bool:
        """Whether it is pending under its owner's hold."""
        return self.state == "PENDING" and self.priority == 0 and self.reason == "JobHeldUser"


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node of the cluster."""

    name: str
    state: str  # base state: IDLE, MIXED, ALLOCATED, DOWN, UNKNOWN, ...
    flags: frozenset[str]  # DRAIN, COMPLETING, NOT_RESPONDING, RESERVED, MAINTENANCE, ...
    reason: str
    gpus: int
    gpus_allocated: int
    gpu_type: str
    cpus: int
    cpus_allocated: int
    memory: int  # MB
    memory_allocated: int  # MB
    features: tuple[str, ...]
    partitions: tuple[str, ...]
    gpus_by_type: tuple[tuple[str, int], ...] = ()  # in the order of the node's GRES; () where a GPU has no type
    sharing: str = ""  # the GRES by which jobs get parts of its GPUs: shard or mps
    gpu_sockets: int = 0  # sockets of its GPUs, as its GRES names them (Cores= in gres.conf); 0: not known

    @property
    def usable(self) -> bool:
        """New jobs may start here."""
        bad = {"DRAIN", "NOT_RESPONDING", "MAINTENANCE", "FAIL", "POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED"}
        return self.state in {"IDLE", "MIXED", "ALLOCATED"} and not (bad & self.flags)


@dataclass(frozen=True, slots=True)
class RequestChange:
    """Changes to the request of a pending job; None: left as it is."""

    nodes: tuple[int, int] | None = None  # -N: least and most, 0: not limited
    required: tuple[str, ...] | None = None  # -w
    excluded: tuple[str, ...] | None = None  # -x
    only: tuple[str, ...] | None = None  # -x with all nodes of the cluster but these
    tasks: int | None = None
    cpus: int | None = None
    cpus_per_task: int | None = None
    gpus: tuple[StatedGpus, ...] | None = None  # several of one option: of several types
    begins_now: bool = True  # of a pin: it becomes eligible now
    uncommented: tuple[CommentField, ...] = ()  # comments that are removed
    total_gpus: StatedGpus | None = (
        None  # of all tasks, where their number changes: 22.05 keeps the former total otherwise
    )


@dataclass(frozen=True, slots=True)
class SlurmSnapshot:
    """All jobs in slurmctld (ended ones for MinJobAge) and all nodes, at `time` (epoch seconds, this host's clock)."""

    time: float
    jobs: tuple[SlurmJob, ...]
    nodes: tuple[SlurmNode, ...]
    unreadable: tuple[
        str, ...
    ] = ()  # records that could not be read, besides those of jobs with an id: one phrase each


@dataclass(frozen=True, slots=True)
class SlurmLoad:
    """How slurmctld fares (sdiag(1)), since it started or its figures were reset."""

    threads: int  # that serve calls now
    queue: int  # messages that wait to be sent to nodes
    database_queue: int  # messages that wait to be sent to slurmdbd
    calls: int  # of one user
    seconds: float  # that these took


class Backend(Protocol):
    """Every question to Slurm ends within the deadline, or the call raises SlurmUnavailable; operations may raise JobRefused and
    its kinds. A call asks one to four questions; a snapshot that meets n unknown jobs asks n / 1000 more."""

    name: str
    why: str  # why this one serves, for the log; "" when it was asked for by name

    def version(self) -> str:
        """Slurm's version, such as 26.05.5."""

    def booted(self) -> float:
        """Return the epoch second at which slurmctld was started; 0 where it is unknown."""

    def topology(self, name: str = "") -> str:
        """Return the output of `scontrol show topology`; "" without a topology plugin.

        `name`: one of the topologies of topology.yaml, from Slurm 25.05 on; "": the default one. "" is returned of an unknown name.
        """

    def load(self, uid: int) -> SlurmLoad:
        """How slurmctld fares, with the calls of this user."""

    def snapshot(self) -> SlurmSnapshot:
        """Return all jobs and nodes."""

    def rules(self) -> SlurmRules:
        """Slurm's own rules about which jobs may start: partitions, reservations, licences, QOS, associations."""

    def job(self, job_id: str) -> SlurmJob:
        """One job, read afresh; cheaper than a snapshot."""

    def hold(self, job_id: str) -> None:
        """Admin hold (priority 0), also in place of a user's; a running job keeps running. This and `lift` take the name of
        tasks that share a record (arrays.py), too."""

    def release(self, job_id: str) -> None:
        """Lift the hold, and begin_time=now for a requeued job, so that it does not wait for 121 s."""

    def lift(self, job_id: str) -> None:
        """The hold alone, of a job that never ran: one call."""

    def begin_now(self, job_id: str) -> None:
        """begin_time=now, of a pending job; held or not it stays. Takes the name of tasks that share a record, too."""

    def pin(self, job_id: str, change: RequestChange) -> None:
        """Change the request of a held pending job, so that it starts where it is to, and make it eligible now. A change of its
        excluded nodes alone needs no hold: Slurm refuses it once the job runs."""

    def prioritize(self, job_id: str) -> None:
        """Put a released job before all others of its partition tier (TOP_PRIORITY). `lift` takes it back; so does a hold."""

    def unpin(self, job_id: str, change: RequestChange) -> None:
        """Change the request of a held pending job back to its own."""

    def signal(self, job_id: str, signal: str) -> None:
        """Send e.g. "USR2" to the batch step's shell only (scancel --batch) of a running job."""

    def requeue(self, job_id: str) -> int:
        """End the run, queue the job again; returns the second of the run's end in Slurm's record.

        A job that has ended meanwhile stays ended, without an error: read it again.
        """

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        """Requeue several jobs within milliseconds. Raises where one is refused; the others may be requeued: read them again."""

    def stated_gpus(self, job_id: str) -> tuple[StatedGpus, ...]:
        """Return the GPUs of a waiting job's request, option by option; () where one states GPUs of several types."""

    def batch_script(self, job_id: str) -> bytes:
        """Return the batch script of a job as Slurm keeps it. Only an Operator gets those of other users."""

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        """Return the present comments of those of these records that Slurm still has: one call."""

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        """Set a comment of several jobs; a name may be one of tasks that share a record, too. A call for each name. Raises where
        one is refused; the others are set all the same."""

    def close(self) -> None:
        """End what the back end keeps open."""
