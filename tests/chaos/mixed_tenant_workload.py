"""The jobs of the campaign with virtual clusters and `--mixed`: what tenants submit besides plain trainings.

Arrays with and without a throttle, jobs that depend on an earlier one, elastic jobs, jobs of whole nodes, jobs that name or exclude
nodes or request a feature, jobs that save near their time limit, and heterogeneous jobs, which the controller does not manage.
Those of no virtual cluster are as in tenant_workload.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tests.chaos.scene import SHARED, USERS, Job, Scene
from tests.chaos.tenant_workload import ARRIVAL_S, SIZES, tenant_job, tenant_of_round, training_time
from tests.chaos.tenants import GPUS_PER_NODE, GPUS_PER_PART, NODES, NODES_PER_RACK, OUTSIDE, OWNED, Tenant, whole_nodes
from tests.chaos.workload import ROUND

ELASTIC = {
    1: (1, 8, 1),
    2: (2, 16, 2),
    4: (1, 16, 1),
    8: (2, 24, 2),
}  # fewest, most, step; of a request of so many GPUs
ELASTIC_NODES = (GPUS_PER_NODE, 4 * GPUS_PER_NODE, GPUS_PER_NODE)  # of one that requests a whole node
ELASTIC_S = 30.0  # of training at least: an elastic job outlasts the busy time of a round
BUSY_S = 36.0  # of each round in which jobs arrive; the rest of it leaves GPUs idle, which elastic jobs take
LIMITED_S = 70.0  # of training, beyond the time limit of a minute
CONDITIONS = ("afterok", "afterany")
# sh -c DEPENDENT sh CONDITION PARENT NAME WORDS...: submit by `tsbatch WORDS`, after the job PARENT where Slurm still has it
DEPENDENT = f"""id=$(squeue --noheader --states=all --me --name="$2" --format=%F | head -n 1)
echo "$1 $2 $id" > {SHARED}/dependencies/"$3"
after="${{id:+--dependency=$1:$id}}"; shift 3; exec tsbatch $after "$@"
"""


@dataclass(slots=True)
class MixedJob(Job):
    """A job of these kinds.

    Attributes:
        kind: Name of the function that made it; "plain": of tenant_workload.py.
        sizes: The numbers of GPUs that the owner of an elastic job stated.
        throttle: Tasks of the array that may run at once; 0: all.
        parent: Name of the job that it waits for.
        required, excluded: The node that it names or excludes.
        rack: The rack whose feature it requests; 0: none.
    """

    kind: str = "plain"
    sizes: frozenset[int] = field(default_factory=frozenset)
    throttle: int = 0
    parent: str = ""
    required: str = ""
    excluded: str = ""
    rack: int = 0

    @property
    def names_hardware(self) -> bool:
        """Whether other jobs of its virtual cluster may hold the only hardware that it can use."""
        return bool(self.required or self.excluded or self.rack)

    @property
    def most_gpus(self) -> int:
        """The GPUs that it takes at most, with the rest of its nodes if it takes them whole."""
        whole = whole_nodes(self.gpus) * GPUS_PER_NODE if self.exclusive else self.gpus
        return max(self.sizes, default=whole)


@dataclass(frozen=True, slots=True)
class TenantDraft:
    """What all kinds of jobs have. earlier: the jobs of the round so far. in_parts: the tenant owns sockets."""

    scene: Scene
    dice: random.Random
    name: str
    tenant: str
    gpus: int
    at: float
    earlier: Sequence[MixedJob]
    user: str
    seconds: float
    in_parts: bool = False

    def training(self, job: MixedJob, *options: str, seconds: float = 0.0) -> MixedJob:
        """Return the job with the command of a trainer on as few nodes as hold its GPUs."""
        job.nodes = whole_nodes(job.gpus)
        own = [f"--account={self.tenant}", f"--nodes={job.nodes}", *options]
        job.command = self.scene.trainer(self.name, job.gpus, seconds or self.seconds, *own)
        return job

    def job(self, kind: str, gpus: int = 0) -> MixedJob:
        """Return a job without a command yet."""
        return MixedJob(self.name, self.user, [], self.at, tenant=self.tenant, gpus=gpus or self.gpus, kind=kind)


def array(one: TenantDraft) -> MixedJob:
    job = one.job("array", min(one.gpus, 4))
    job.tasks = 3
    return one.training(job, "--array=0-2", seconds=one.seconds / 2)


def throttled_array(one: TenantDraft) -> MixedJob:
    job = one.job("throttled_array", min(one.gpus, 4))
    job.tasks, job.throttle = 4, one.dice.choice([1, 2])
    return one.training(job, f"--array=0-3%{job.throttle}", seconds=one.seconds / 3)


def dependent(one: TenantDraft) -> MixedJob:
    """Starts after an earlier job of its owner, as soon as Slurm permits it; cancelled by Slurm where it never will."""
    parents = [job for job in one.earlier if job.user == one.user]
    job = one.job("dependent")
    if not parents:
        return one.training(job)
    job.parent, condition = one.dice.choice(parents[-6:]).name, one.dice.choice(CONDITIONS)
    one.training(job, "--kill-on-invalid-dep=yes")
    job.command = ["sh", "-c", DEPENDENT, "sh", condition, job.parent, one.name, *job.command[1:]]
    return job


def elastic_tasks(one: TenantDraft) -> MixedJob:
    """Tasks with a GPU each, whose number changes, on any nodes."""
    job = one.job("elastic_tasks", one.dice.choice(list(ELASTIC)))
    return _elastic(one, job, ELASTIC[job.gpus], lambda word: not word.startswith(("--gpus=", "--nodes=")))


def elastic_nodes(one: TenantDraft) -> MixedJob:
    """Whole nodes, whose number changes."""
    job = one.job("elastic_nodes", GPUS_PER_NODE)
    tied = ("--gpus=", "--gpus-per-task=", "--ntasks=")
    shape = (f"--gpus-per-node={GPUS_PER_NODE}", f"--ntasks-per-node={GPUS_PER_NODE}")
    return _elastic(one, job, ELASTIC_NODES, lambda word: not word.startswith(tied), *shape)


def _elastic(
    one: TenantDraft, job: MixedJob, stated: tuple[int, int, int], keep: Callable[[str], bool], *options: str
) -> MixedJob:
    least, most, step = stated
    one.training(job, f"--elastic={least}-{most}:{step}", *options, seconds=max(one.seconds, ELASTIC_S))
    job.command, job.nodes = [word for word in job.command if keep(word)], 0
    job.sizes = frozenset(range(least, most + 1, step)) | {job.gpus}
    return job


def exclusive(one: TenantDraft) -> MixedJob:
    job = one.job("exclusive")
    job.exclusive = True
    return one.training(job, "--exclusive")


def on_a_named_node(one: TenantDraft) -> MixedJob:
    job = one.job("on_a_named_node", min(one.gpus, GPUS_PER_NODE))
    job.required = _node(one)
    return one.training(job, f"--nodelist={job.required}")


def not_on_a_node(one: TenantDraft) -> MixedJob:
    job = one.job("not_on_a_node", min(one.gpus, GPUS_PER_NODE))
    job.excluded = _node(one)
    return one.training(job, f"--exclude={job.excluded}")


def in_a_named_rack(one: TenantDraft) -> MixedJob:
    job = one.job("in_a_named_rack", min(one.gpus, GPUS_PER_NODE))
    job.rack = one.dice.randint(1, NODES // NODES_PER_RACK)
    return one.training(job, f"--constraint=rack{job.rack}")


def _node(one: TenantDraft) -> str:
    return one.dice.choice(one.scene.cluster.spec.node_names)


def near_its_limit(one: TenantDraft) -> MixedJob:
    """Saves before that, and is requeued."""
    return one.training(one.job("near_its_limit", min(one.gpus, 4)), "--time=1", seconds=LIMITED_S)


def heterogeneous(one: TenantDraft) -> MixedJob:
    """Slurm's alone: its GPUs are in use by a job that is never preempted."""
    job, part = one.job("heterogeneous", 2), [f"--account={one.tenant}", "--gpus=1", "--ntasks=1"]
    words = ["--parsable", f"--job-name={one.name}", "--chdir=/tmp", "--output=/dev/null"]
    seconds = min(one.seconds, 10.0)
    job.command, job.trains, job.foreign = (
        ["sbatch", *words, *part, ":", *part, "--wrap", f"sleep {seconds}"],
        False,
        True,
    )
    return job


def plain(one: TenantDraft) -> MixedJob:
    most_fixed = GPUS_PER_PART if one.in_parts else one.gpus
    job = tenant_job(one.scene, one.dice, one.name, one.tenant, one.gpus, one.at, most_fixed)
    return MixedJob(**asdict(job))


KINDS: dict[Callable[[TenantDraft], MixedJob], int] = {
    plain: 40, array: 7, throttled_array: 7, dependent: 10, elastic_tasks: 12, elastic_nodes: 8, exclusive: 6, on_a_named_node: 4,
    not_on_a_node: 4, in_a_named_rack: 4, near_its_limit: 3, heterogeneous: 3,
}  # fmt: skip


def mixed_tenant_jobs(
    scene: Scene, dice: random.Random, number: int, start: float, tenants: Mapping[str, Tenant] = OWNED
) -> Iterator[MixedJob]:
    """Yield the arrivals of a round. The jobs of a tenant that owns sockets request a node at most."""
    moment, earlier = 0.0, list[MixedJob]()
    while (moment := moment + dice.expovariate(ROUND / BUSY_S / ARRIVAL_S)) < BUSY_S:
        name, tenant, gpus = f"chaos-{number}-{len(earlier) + 1}", tenant_of_round(dice, number), dice.choice(SIZES)
        user, seconds = dice.choice(USERS), training_time(dice)
        in_parts = tenant in tenants and tenants[tenant].in_parts
        gpus = min(gpus, GPUS_PER_NODE) if in_parts else gpus
        draft = TenantDraft(scene, dice, name, tenant, gpus, start + moment, tuple(earlier), user, seconds, in_parts)
        kind = plain if tenant == OUTSIDE else dice.choices(list(KINDS), list(KINDS.values()))[0]
        earlier.append(kind(draft))
        yield earlier[-1]
