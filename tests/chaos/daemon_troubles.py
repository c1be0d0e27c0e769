"""Daemons and nodes that fail: SIGKILL, restarts, a stopped slurmctld, a node that is set down."""

from __future__ import annotations

import time

from tests.chaos.remedies import Remedies, Remedy

# seconds from slurmctld's start until it misses a job that its node does not have: BatchStartTimeout + 10
MISSED_AFTER = 25.0
REGISTRATION = "nodes register again"
SUBMISSION_S = 5.0  # a submission takes no longer
SAVED_AFTER = 10.0  # seconds until slurmctld has stored a change: every 5, and a save takes a while


class DaemonTroubles(Remedies):
    """The troubles of the controller, slurmctld, slurmd and whole nodes; each method returns what it did, None: nothing."""

    def kill_controller(self, _job: str) -> str:
        self.blind.append((time.time() - 1, time.time() + 5))
        self.scene.kill_controller()
        return ""

    def kill_slurmctld(self, _job: str) -> str | None:
        """Slurm itself loses its last seconds: jobs that it accepted, ends that it had recorded. A job that it shows as running,
        though it ended, stays so until its node registers again; an administrator can request that with SIGHUP."""
        if "slurmctld" in self._away:
            return None
        self.blind.append((time.time() - 10, time.time() + 25))
        began = time.time()
        remembered = self.scene.cluster.run(["squeue", "-h", "--states=all", "-o", "%j"], timeout=15).stdout
        self.shaken |= set(remembered.split())
        self._forgotten |= {one for one, moment in self._lifted.items() if moment > time.time() - SAVED_AFTER}
        self.scene.cluster.kill_slurmctld("KILL")
        self.unlisted.append((began - SUBMISSION_S, time.time()))
        self.scene.cluster.start_slurmctld()
        self.nodes_register_later()
        return ""

    def nodes_register_later(self) -> None:
        """One SIGHUP for all requests: a slurmd that gets a second one while it reads its configuration ends."""
        if not self._is_due_later(REGISTRATION):
            self.later(MISSED_AFTER, REGISTRATION, self._register_nodes)

    def _register_nodes(self) -> None:
        self.scene.cluster.run(["pkill", "-HUP", "-f", "^slurmd -N"], check=False)

    def restart_slurmctld(self, _job: str) -> str | None:
        if "slurmctld" in self._away:
            return None
        self.blind.append((time.time() - 1, time.time() + 10))
        self.scene.cluster.restart_slurmctld()
        self.nodes_register_later()  # a launch that slurmctld lost at its stop holds its GPUs until then
        return ""

    def stop_slurmctld(self, _job: str) -> str | None:
        if not self._breaks("slurmctld"):
            return None
        self.scene.cluster.run(["pkill", "-STOP", "-x", "slurmctld"])
        seconds = self._dice.choice([1.0, 4.0, 15.0, 60.0])
        go_on = ["pkill", "-CONT", "-x", "slurmctld"]
        return self._without_slurmctld(seconds, lambda: self.scene.cluster.run(go_on))

    def take_slurmctld_away(self, _job: str) -> str | None:
        if not self._breaks("slurmctld"):
            return None
        self.scene.cluster.kill_slurmctld("TERM")
        seconds = self._dice.choice([2.0, 8.0, 30.0, 60.0])
        return self._without_slurmctld(seconds, self.scene.cluster.start_slurmctld)

    def _without_slurmctld(self, seconds: float, start: Remedy) -> str:
        began = time.time()

        def end() -> None:
            start()
            self.absent.append((began, time.time()))

        self._while_blind(seconds, "slurmctld", self._mending("slurmctld", end))
        return f"for {seconds:g} s"

    def kill_slurmd(self, _job: str) -> str | None:
        node = self._node()
        if not self._breaks(node):
            return None
        self.scene.cluster.run(["pkill", "-KILL", "-f", f"^slurmd -N {node}"], check=False)
        start = ["sh", "-c", f"pgrep -f '^slurmd -N {node}' || slurmd -N {node}"]
        self.changes.add(time.time() - 1, time.time() + 20)
        self._mend_later(self._dice.uniform(0.5, 5), node, lambda: self.scene.cluster.run(start), f"slurmd {node}")
        return node

    def take_node_down(self, job: str) -> str | None:
        """Drained too, so that it does not come back by itself."""
        self.blind.append((time.time() - 1, time.time() + 10))
        return self._take_away(job, "DRAIN", "DOWN")

    def drain_node(self, job: str) -> str | None:
        """Its jobs go on."""
        return self._take_away(job, "DRAIN")

    def _take_away(self, job: str, *states: str) -> str | None:
        node = self._node(job)
        if not self._breaks(node):
            return None
        began, seconds = time.time(), self._dice.uniform(2, 12)
        self.changes.add(began - 1, began + 25)
        self.bad_nodes.append((node, began, began + seconds + 10))
        resume = ("update", f"NodeName={node}", "State=RESUME")
        self._mend_later(seconds, node, lambda: self.scene.scontrol(*resume), f"node {node}")
        # After the remedy: what a stopped slurmctld has not answered in time it may carry out later.
        for state in states:
            self.scene.scontrol("update", f"NodeName={node}", f"State={state}", "Reason=chaos")
        return node

    def _node(self, job: str = "") -> str:
        """One of the job's, where it has some."""
        held = self.scene.show(job).get("NodeList", "") if job else ""
        names = [name for name in self.scene.cluster.spec.node_names if name == held]
        return self._dice.choice(names or self.scene.cluster.spec.node_names)
