"""Troubles of Slurm's own rules: what an administrator limits, reserves or closes while jobs run, and what users may ask for.

Each is lifted after some seconds. Meanwhile no job is preempted for a job that the rule blocks, and GPUs go to the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.chaos.remedies import SEEN_AFTER, Remedies
from tests.chaos.scene import USERS
from tiresias.errors import Unavailable

RULES = {
    "limit_jobs_of_user": 2, "limit_gpus_of_user": 2, "limit_qos": 1, "throttle_array": 2, "reserve_node": 2,
    "reserve_node_soon": 2, "reserve_licence": 1, "close_partition": 1, "absurd_request": 2,
}  # fmt: skip
LIFTED_AFTER = (5.0, 15.0)  # seconds
QOS_LIMITS = ("MaxJobsPerUser=1", "MaxTRESPerUser=gres/gpu=2", "GrpTRES=gres/gpu=4", "MaxTRESPerJob=gres/gpu=4")
ABSURD = (
    ("--gpus-per-socket=900000000000", "--sockets-per-node=65000", "-N", "2000000"),
    ("--gpus=4000000000", "-N1"),
    ("-N", "4000000", "--gpus-per-node=4"),
    ("--ntasks=2000000000", "--gpus-per-task=1"),
)


class RuleTroubles(Remedies):
    """Limits, reservations and closed partitions; each method returns what it did, None: nothing."""

    def limit_jobs_of_user(self, _job: str) -> str:
        return self._limit("user", self._dice.choice(USERS), "MaxJobs", self._dice.choice(["0", "1", "2"]))

    def limit_gpus_of_user(self, _job: str) -> str:
        return self._limit("user", self._dice.choice(USERS), "GrpTRES", self._dice.choice(["gres/gpu=2", "gres/gpu=4"]))

    def limit_qos(self, _job: str) -> str:
        name, _, value = self._dice.choice(QOS_LIMITS).partition("=")
        return self._limit("qos", "normal", name, value)

    def _limit(self, entity: str, name: str, limit: str, value: str) -> str:
        """entity: user or qos, as sacctmgr has it."""
        seconds = self._dice.uniform(*LIFTED_AFTER)
        self._modify(entity, name, f"{limit}={value}")
        lifted = f"{value.rpartition('=')[0]}=-1" if "=" in value else "-1"
        self._concerns(seconds, name if entity == "user" else "")
        self._lift_after(seconds, f"{limit} of {name}", lambda: self._modify(entity, name, f"{limit}={lifted}"))
        return f"{limit}={value} of {name} for {seconds:.0f} s"

    def _modify(self, entity: str, name: str, setting: str) -> None:
        self.scene.cluster.run(["sacctmgr", "-i", "modify", entity, name, "set", setting], timeout=15)

    def throttle_array(self, _job: str) -> str | None:
        arrays = [job["id"].partition("_")[0] for job in self.scene.queue() if "_" in job["id"]]
        if not arrays:
            return None
        number, seconds = self._dice.choice(arrays), self._dice.uniform(*LIFTED_AFTER)
        names = [job["name"] for job in self.scene.queue() if job["id"].startswith(f"{number}_")]
        self._throttle(number, 1)
        for name in names:
            self._concerns(seconds, name)
        self._lift_after(seconds, f"throttle of {number}", lambda: self._throttle(number, 0))
        return f"of {number}"

    def _throttle(self, number: str, count: int) -> None:
        self.scene.scontrol("update", f"JobId={number}", f"ArrayTaskThrottle={count}", check=False)

    def reserve_node(self, _job: str) -> str | None:
        return self._reserve("now", self._dice.uniform(*LIFTED_AFTER))

    def reserve_node_soon(self, _job: str) -> str | None:
        """Jobs whose time limit reaches into it can no longer start there."""
        return self._reserve("now+10", 10.0 + self._dice.uniform(*LIFTED_AFTER))

    def _reserve(self, start: str, seconds: float) -> str | None:
        node = self._dice.choice(self.scene.cluster.spec.node_names)
        name = f"chaos_{node}"
        if not self._breaks(name):
            return None
        options = [f"StartTime={start}", f"Nodes={node}", "Flags=MAINT,IGNORE_JOBS"]
        self._concerns(seconds, "")
        self._lift_after(seconds, name, self._mending(name, lambda: self._forget(name)))
        self._create(name, options)
        return f"{node} from {start} for {seconds:.0f} s"

    def reserve_licence(self, _job: str) -> str | None:
        name = "chaos_licence"
        if not self._breaks(name):
            return None
        seconds = self._dice.uniform(*LIFTED_AFTER)
        options = ["StartTime=now", "Licenses=scarce:1", "Flags=ANY_NODES,LICENSE_ONLY"]
        self._lift_after(seconds, name, self._mending(name, lambda: self._forget(name)))
        self._create(name, options)
        return f"for {seconds:.0f} s"

    def _create(self, name: str, options: list[str]) -> None:
        words = ["scontrol", "create", "reservation", f"ReservationName={name}", "Duration=60", "Users=root", *options]
        self.scene.cluster.run(words, timeout=15)

    def _forget(self, name: str) -> None:
        if name in self.scene.cluster.run(["scontrol", "show", "reservation", "-o"], timeout=15).stdout:
            self.scene.cluster.run(["scontrol", "delete", f"ReservationName={name}"], timeout=15)

    def remove_recovered_reservations(self) -> None:
        """At the end: a slurmctld that is killed right after a reservation was deleted recovers it from its saved state."""
        shown = self.scene.cluster.run(["scontrol", "show", "reservation", "-o"], check=False, timeout=15).stdout
        for name in {word.partition("=")[2] for word in shown.split() if word.startswith("ReservationName=chaos_")}:
            self._forget(name)

    def close_partition(self, _job: str) -> str | None:
        if not self._breaks("partition"):
            return None
        state, seconds = self._dice.choice(["DOWN", "INACTIVE", "DRAIN"]), self._dice.uniform(*LIFTED_AFTER)
        opened = ("update", "PartitionName=gpu", "State=UP")
        self._concerns(seconds, "")
        self._lift_after(seconds, "partition", self._mending("partition", lambda: self.scene.scontrol(*opened)))
        self.scene.scontrol("update", "PartitionName=gpu", f"State={state}")
        return f"{state} for {seconds:.0f} s"

    def absurd_request(self, _job: str) -> str:
        """Refused or queued for ever; in the latter case its owner takes it back."""
        options, user = self._dice.choice(ABSURD), self._dice.choice(USERS)
        words = [
            "sbatch",
            "--parsable",
            "--job-name=absurd",
            "--chdir=/tmp",
            "--output=/dev/null",
            *options,
            "--wrap",
            "true",
        ]
        done = self.scene.cluster.run(words, user=user, check=False, timeout=15)
        take_back = ["scancel", "--user", user, "--name=absurd"]
        self._lift_after(
            self._dice.uniform(*LIFTED_AFTER), "absurd request", lambda: self.scene.cluster.run(take_back, timeout=15)
        )
        return f"{' '.join(options)}: {(done.stdout or done.stderr).strip()[-80:]}"

    def _lift_after(self, seconds: float, what: str, remedy: Callable[[], object]) -> None:
        """At once or, where slurmctld is away then, when it is back. Nothing waits for that."""

        def lift() -> None:
            if "slurmctld" in self._away:
                raise Unavailable("slurmctld is away")
            remedy()

        self.later(seconds, what, lift)

    def _concerns(self, seconds: float, of: str) -> None:
        self.changes.add(time.time() - 1, time.time() + seconds + SEEN_AFTER, of)
