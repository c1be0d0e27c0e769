"""What a cluster needs before a replay begins: folders, profiles, compiled modules."""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay import model_profiles, setup
from tiresias.sandbox.replay.replay_policies import MANAGED_POLICIES
from tiresias.sandbox.replay.setup import USERS, Options
from tiresias.sandbox.rootfs import USERS as UIDS
from tiresias.simulator.trace import TraceJob


def compile_modules(cluster: Cluster, policy: str) -> None:
    """Compile modules once for each user, which otherwise sixty jobs would compile in their first second."""
    programs = [
        "sandbox.trainer",
        "sandbox.replay.submitter",
        *(("wrappers.tsbatch", "wrappers.supervisor") if policy in MANAGED_POLICIES else ()),
    ]
    imports = "; ".join(f"import tiresias.{program}" for program in programs)
    for user in USERS:
        cluster.run(["python3", "-c", imports], user=user)


def make_job_roots(cluster: Cluster) -> None:
    """Create the control root and the checkpoint root for all users."""
    for name in ("control", "checkpoints"):
        folder = cluster.shared / "tiresias" / name
        folder.mkdir(parents=True)
        folder.chmod(0o1777)


def store_profiles(cluster: Cluster, jobs: Sequence[TraceJob], options: Options) -> None:
    """Store the profile of each job's model for its user."""
    root, script = cluster.shared / "tiresias" / "control", setup.SCRIPT.encode()
    for user in USERS:
        own = [job for row, job in enumerate(jobs) if setup.owner_of(job, row, options) == user]
        kinds = [(setup.name_of(job), setup.model_of(job), job.num_gpus) for job in own]
        model_profiles.leave(root, UIDS[user], script, kinds)
