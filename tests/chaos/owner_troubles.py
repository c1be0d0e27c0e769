"""What owners and administrators do to jobs while they run, and what they undo at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tests.chaos.remedies import SEEN_AFTER, Remedies
from tests.chaos.scene import Scene


class OwnerTroubles(Remedies):
    """Cancel, hold, release, requeue and change a job; each method returns what it did, None: nothing."""

    def __init__(self, scene: Scene, seed: int, report: Callable[[str], None]) -> None:
        super().__init__(scene, seed, report)
        self._narrowed = set[str]()  # jobs that were limited to fewer nodes, which may be too few for them

    def cancel(self, job: str) -> str | None:
        found = self._pick(job)
        if not found:
            return None
        self.scene.jobs[found[1]].fate = "cancelled"
        self._befalls(found[1])
        self.scene.cluster.run(["scancel", found[0]], user=found[2], check=False)
        return f"{found[1]} ({found[0]})"

    def hold(self, job: str) -> str | None:
        return self._owner(
            job, "hold", lambda user, one: self.later(4.0, f"hold of {one}", lambda: self._release(user, one))
        )

    def release(self, job: str) -> str | None:
        return self._owner(job, "release")

    def requeue(self, job: str) -> str | None:
        self.blind.append((time.time() - 1, time.time() + 10))
        return self._owner(job, "requeue")

    def admin_hold(self, job: str) -> str | None:
        found = self._pick(job)
        if not found:
            return None
        self._befalls(found[1])
        self.scene.scontrol("hold", found[0], check=False)
        self.later(4.0, f"admin's hold of {found[1]}", lambda: self._lift(found[0], found[1]))
        return f"{found[1]} ({found[0]})"

    def _lift(self, number: str, name: str) -> None:
        """Again later while Slurm is away: asking for the queue raises then."""
        if any((one["id"], one["name"]) == (number, name) for one in self.scene.queue()):
            self._lifted[number, name] = time.time()
            self.scene.scontrol("release", number, check=False)

    def modify(self, job: str) -> str | None:
        change = self._dice.choice(
            ["NumNodes=1-2", "NumNodes=1-4", "TimeLimit=30", "Nice=10", "ExcNodeList=gpu03", "ExcNodeList="]
        )
        done = self._owner(job, "update", change=change)
        if done:
            self._narrowed.add(done.split()[0])
        return done

    def _owner(
        self, job: str, operation: str, then: Callable[[str, str], None] = lambda user, one: None, change: str = ""
    ) -> str | None:
        found = self._pick(job)
        if not found:
            return None
        number, name, user = found
        self._befalls(name, math.inf if change else SEEN_AFTER)
        words = ["update", f"JobId={number}", change] if change else [operation, number]
        done = self.scene.cluster.run(["scontrol", *words], user=user, check=False, timeout=15)
        then(user, number)
        refused = f": {(done.stderr.strip().splitlines() or ['refused'])[-1]}" if done.returncode else ""
        return f"{name} ({number}) {change}{refused}"

    def _release(self, user: str, number: str) -> None:
        self.scene.cluster.run(["scontrol", "release", number], user=user, check=False, timeout=15)

    def resume_nodes(self) -> None:
        """As an admin does: Slurm drains a node on which it finds a job that it forgot when it was killed ("Duplicate jobid")."""
        lines = self.scene.cluster.run(
            ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T %E"], timeout=15
        ).stdout.splitlines()
        for node, state, reason in (line.split(" ", 2) for line in lines):
            if state.startswith(("drain", "down")):
                self.scene.scontrol("update", f"NodeName={node}", "State=RESUME", check=False)
                self.counts[f"resumed: {reason}"] += 1
                self._report(f"resumed {node}: {reason}")

    def release_all_holds(self) -> None:
        """At the end: owners lift their own holds. An administrator lifts those that Slurm placed, and once more those whose
        lifting a killed slurmctld forgot."""
        for job in self.scene.queue():
            if job["reason"] == "JobHeldUser":
                self._release(job["user"], job["id"])
            forgotten = job["reason"] == "JobHeldAdmin" and (job["id"], job["name"]) in self._forgotten
            if forgotten or job["reason"].startswith("launch failed"):  # the latter is Slurm's own hold
                self._forgotten.discard((job["id"], job["name"]))
                self.scene.scontrol("release", job["id"], check=False)

    def widen_what_was_narrowed(self) -> None:
        """At the end: an owner who reads that the job can never run takes that back."""
        for job in self.scene.queue():
            if job["name"] in self._narrowed and job["state"] == "PENDING":
                wide = [f"NumNodes=1-{len(self.scene.cluster.spec.node_names)}", "ExcNodeList="]
                words = ["scontrol", "update", f"JobId={job['id']}", *wide]
                done = self.scene.cluster.run(words, user=job["user"], check=False, timeout=15)
                if not done.returncode:
                    self._narrowed.discard(job["name"])

    def _pick(self, job: str) -> tuple[str, str, str] | None:
        """id, name and user of this job or of any that has not ended; only of those that the driver submitted."""
        if "slurmctld" in self._away:
            return None
        alive = [one for one in self.scene.queue() if one["name"] in self.scene.jobs]
        chosen = [one for one in alive if one["id"] == job] or (alive if not job else [])
        if not chosen:
            return None
        one = self._dice.choice(chosen)
        return one["id"], one["name"], one["user"]
