"""What goes wrong in a chaos run: each trouble does its harm at once and may leave a remedy for later.

A trouble is a method named by what it does; `TROUBLES` says how often each comes by itself, `AT_STEPS` which ones come at the very
step of a start or a preemption, while the controller waits there (lives.py). Everything is logged with its second.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable

from rules import RULES, SEEN_AFTER, Rules
from scene import Scene
from windows import Windows

from tiresias.errors import TiresiasError

STATE_RESERVE = "filler"
# seconds from slurmctld's start until it misses a job that its node does not have: BatchStartTimeout + 10
MISSED_AFTER = 25.0
REGISTRATION = "nodes register again"
# seconds: of each CALM_EVERY the last CALM have no troubles, so that what is judged in quiet alone (windows.py) is judged
CALM_EVERY, CALM = 150.0, 60.0
SAVED_AFTER = 10.0  # seconds in which slurmctld writes down what it was told: every 5, and it takes a while
Remedy = Callable[[], object]

# by themselves: relative weights
TROUBLES = {
    "kill_controller": 6, "kill_slurmctld": 2, "restart_slurmctld": 3, "stop_slurmctld": 2, "take_slurmctld_away": 1,
    "kill_slurmd": 3, "kill_supervisor": 2, "kill_rank": 3, "take_node_down": 3, "step_clock": 2, "fill_state_disk": 2,
    "take_control_folder_away": 3, "slow_control_folder": 2, "cancel": 3, "hold": 3, "requeue": 3, "modify": 3, "admin_hold": 2,
    **RULES,
}  # fmt: skip
# at a step of the contract: of or beside its job
AT_STEPS = {
    "kill_controller": 6, "kill_slurmctld": 1, "restart_slurmctld": 1, "stop_slurmctld": 1, "kill_slurmd": 1, "kill_supervisor": 1,
    "kill_rank": 1, "take_node_down": 2, "fill_state_disk": 1, "take_control_folder_away": 1, "cancel": 3, "hold": 4, "release": 4,
    "requeue": 4, "modify": 4, "admin_hold": 3, "nothing": 1,
}  # fmt: skip


def is_calm(moment: float) -> bool:
    """moment: seconds since the troubles began."""
    return moment % CALM_EVERY >= CALM_EVERY - CALM


class Troubles(Rules):
    """blind: (from, to) in epoch seconds when the controller could not see Slurm; what ends then is known less exactly.
    shaken: jobs that were there when slurmctld was killed. changes: what else was done, to whom."""

    def __init__(self, scene: Scene, seed: int, say: Callable[[str], None]) -> None:
        self.scene, self.counts, self.blind = scene, Counter[str](), list[tuple[float, float]]()
        self.absent = list[tuple[float, float]]()  # slurmctld, from and to
        self.changes = Windows()
        self.shaken = set[str]()  # jobs of which Slurm itself lost something
        self._dice, self._say = random.Random(seed), say
        self._remedies: list[tuple[float, int, str, Remedy]] = []
        self._order = itertools.count()
        self._narrowed = set[str]()  # jobs that fewer nodes will do for, which may be too few for them
        self._lifted = dict[tuple[str, str], float]()  # when an admin lifted the own hold of a job (id, name)
        self._forgotten = set[tuple[str, str]]()  # those whose lifting a slurmctld that was killed may not know of
        self._away: set[str] = set()  # what is broken already is not broken again

    def plan(self, seconds: float, every: float) -> list[tuple[float, str]]:
        """The troubles that come by themselves, by second."""
        dice, moment, planned = random.Random(self._dice.random()), 0.0, []
        while (moment := moment + dice.expovariate(1 / every)) < seconds:
            name = dice.choices(list(TROUBLES), list(TROUBLES.values()))[0]
            if not is_calm(moment):
                planned.append((moment, name))
        return planned

    def strike(self, name: str, job: str = "", where: str = "") -> None:
        """job: a Slurm id, "": any."""
        if name in RULES and "slurmctld" in self._away:
            return
        try:
            what = getattr(self, name)(job)
        except (TiresiasError, subprocess.TimeoutExpired, OSError) as error:
            what = f"failed: {error}"
        if what is not None:
            self.counts[f"{where}: {name}" if where else name] += 1
            self._say(f"{name} {what}{f' at {where}' if where else ''}".rstrip())

    def at_step(self, point: str, job: str) -> None:
        name = self._dice.choices(list(AT_STEPS), list(AT_STEPS.values()))[0]
        self.strike(name, job, point)

    def nothing(self, _job: str) -> str:
        return ""

    # -- remedies -------------------------------------------------------------------------------------------------------

    def later(self, seconds: float, what: str, remedy: Remedy) -> None:
        self._remedies.append((time.time() + seconds, next(self._order), what, remedy))

    def remedy_what_is_due(self, all_of_it: bool = False) -> None:
        now = time.time()
        due = [one for one in sorted(self._remedies) if all_of_it or one[0] <= now]
        self._remedies = [one for one in self._remedies if one not in due]
        for _, _, what, remedy in due:
            try:
                remedy()
                self._say(f"over: {what}")
            except (TiresiasError, subprocess.TimeoutExpired, OSError) as error:
                self._say(f"not over yet: {what}: {str(error)[-60:]}")
                # an invalid state: it is up, for a slurmctld that was killed forgot that it was down
                if "Invalid node state" not in str(error):
                    self.later(2.0, what, remedy)

    def _while_blind(self, seconds: float, what: str, remedy: Remedy) -> None:
        self.blind.append((time.time() - 1, time.time() + seconds + 10))
        self.later(seconds, what, remedy)

    def _breaks(self, what: str) -> bool:
        """Once at a time."""
        if what in self._away:
            return False
        self._away.add(what)
        return True

    # -- daemons --------------------------------------------------------------------------------------------------------

    def kill_controller(self, _job: str) -> str:
        self.blind.append((time.time() - 1, time.time() + 5))
        self.scene.kill_controller()
        return ""

    def kill_slurmctld(self, _job: str) -> str | None:
        """Slurm itself loses its last seconds: jobs that it accepted, ends that it knew of. A job that it takes to be running,
        though it ended, stays so until its node registers again, which an admin can have it do at once (SIGHUP)."""
        if "slurmctld" in self._away:
            return None
        self.blind.append((time.time() - 10, time.time() + 25))
        remembered = self.scene.cluster.run(["squeue", "-h", "--states=all", "-o", "%j"], timeout=15).stdout
        self.shaken |= set(remembered.split())
        self._forgotten |= {one for one, moment in self._lifted.items() if moment > time.time() - SAVED_AFTER}
        self.scene.cluster.kill_slurmctld("KILL")
        self.scene.cluster.start_slurmctld()
        self.nodes_register_later()
        return ""

    def nodes_register_later(self) -> None:
        """Once for all who ask: a slurmd that gets a second SIGHUP while it reads its configuration ends."""
        if all(what != REGISTRATION for _, _, what, _ in self._remedies):
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
            self._mend("slurmctld")
            start()
            self.absent.append((began, time.time()))

        self._while_blind(seconds, "slurmctld", end)
        return f"for {seconds:g} s"

    def _mend(self, what: str) -> None:
        self._away.discard(what)

    def kill_slurmd(self, _job: str) -> str | None:
        node = self._node()
        if not self._breaks(node):
            return None
        self.scene.cluster.run(["pkill", "-KILL", "-f", f"^slurmd -N {node}"], check=False)
        start = ["sh", "-c", f"pgrep -f '^slurmd -N {node}' || slurmd -N {node}"]
        self.changes.add(time.time() - 1, time.time() + 20)
        self.later(
            self._dice.uniform(0.5, 5), f"slurmd {node}", lambda: (self._mend(node), self.scene.cluster.run(start))
        )
        return node

    def take_node_down(self, job: str) -> str | None:
        node = self._node(job)
        if not self._breaks(node):
            return None
        self.blind.append((time.time() - 1, time.time() + 10))
        self.changes.add(time.time() - 1, time.time() + 25)
        resume = ("update", f"NodeName={node}", "State=RESUME")
        self.later(self._dice.uniform(2, 12), f"node {node}", lambda: (self._mend(node), self.scene.scontrol(*resume)))
        # After the remedy: what a stopped slurmctld has not answered in time it may carry out later.
        for state in ("DRAIN", "DOWN"):  # drained, so that it does not come back by itself
            self.scene.scontrol("update", f"NodeName={node}", f"State={state}", "Reason=chaos")
        return node

    def _node(self, job: str = "") -> str:
        """One of the job's, where it has some."""
        held = self.scene.show(job).get("NodeList", "") if job else ""
        names = [name for name in self.scene.cluster.spec.node_names if name == held]
        return self._dice.choice(names or self.scene.cluster.spec.node_names)

    # -- programs -------------------------------------------------------------------------------------------------------

    def kill_supervisor(self, _job: str) -> str | None:
        return self._kill("wrappers.supervisor")

    def kill_rank(self, _job: str) -> str | None:
        return self._kill("sandbox.trainer --job")

    def _kill(self, pattern: str) -> str | None:
        """Its job fails, as it does without us."""
        found = self.scene.cluster.run(["pgrep", "-f", pattern], check=False).stdout.split()
        if not found:
            return None
        victim = self._dice.choice(found)
        name = self._job_of(victim)
        if name not in self.scene.jobs:
            return None
        self.scene.jobs[name].fate = "a process of it was killed"
        self._befalls(name)
        self.scene.cluster.run(["kill", "-KILL", victim], check=False)
        return f"of {name}"

    def _job_of(self, pid: str) -> str:
        environment = self.scene.cluster.run(["cat", f"/proc/{pid}/environ"], check=False).stdout.split("\0")
        return next((word.partition("=")[2] for word in environment if word.startswith("SLURM_JOB_NAME=")), "")

    # -- clocks, disks, file systems ------------------------------------------------------------------------------------

    def step_clock(self, _job: str) -> str | None:
        """The controller's alone: the machine's clock is not ours to set, and Linux has no namespace for it."""
        if not self._breaks("clock"):
            return None
        step = self._dice.choice([-3600, -30, 30, 3600])
        self._write("clock", str(step))
        self.blind.append((time.time() - 1, time.time() + 40))
        self.later(self._dice.uniform(4, 15), "clock", lambda: (self._mend("clock"), self._write("clock", "0")))
        return f"by {step} s"

    def slow_control_folder(self, _job: str) -> str | None:
        if not self._breaks("slow"):
            return None
        seconds = self._dice.choice([0.02, 0.1, 0.5])
        self._write("slow", str(seconds))
        self.blind.append((time.time() - 1, time.time() + 30))
        self.later(self._dice.uniform(4, 10), "slow", lambda: (self._mend("slow"), self._write("slow", "0")))
        return f"by {seconds} s a look"

    def _write(self, name: str, text: str) -> None:
        (self.scene.trouble / f".{name}").write_text(text)
        (self.scene.trouble / f".{name}").replace(self.scene.trouble / name)

    def fill_state_disk(self, _job: str) -> str | None:
        if not self._breaks("disk"):
            return None
        filler = f"{self.scene.state_inside}/{STATE_RESERVE}"
        self.scene.cluster.run(["sh", "-c", f"cat /dev/zero > {filler}"], check=False)
        self.blind.append((time.time() - 1, time.time() + 25))
        remove = ["rm", "-f", filler]
        self.later(self._dice.uniform(2, 10), "disk", lambda: (self._mend("disk"), self.scene.cluster.run(remove)))
        return ""

    def take_control_folder_away(self, _job: str) -> str | None:
        if not self._breaks("control"):
            return None
        self.changes.add(time.time() - 1, time.time() + 20)
        here, away = (self.scene.cluster.shared / "tiresias" / name for name in ("control", "control.away"))
        here.rename(away)

        def back() -> None:
            self._mend("control")
            if here.exists():  # a job that started meanwhile made it again
                self.scene.cluster.run(["rm", "-rf", "/shared/tiresias/control"])
            away.rename(here)

        self.later(self._dice.choice([0.2, 1.0, 4.0]), "control", back)
        return ""

    # -- owners and admins ----------------------------------------------------------------------------------------------

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
        self, job: str, verb: str, then: Callable[[str, str], None] = lambda user, one: None, change: str = ""
    ) -> str | None:
        found = self._pick(job)
        if not found:
            return None
        number, name, user = found
        self._befalls(name, math.inf if change else SEEN_AFTER)
        words = ["update", f"JobId={number}", change] if change else [verb, number]
        done = self.scene.cluster.run(["scontrol", *words], user=user, check=False, timeout=15)
        then(user, number)
        refused = f": {(done.stderr.strip().splitlines() or ['refused'])[-1]}" if done.returncode else ""
        return f"{name} ({number}) {change}{refused}"

    def _befalls(self, name: str, seconds: float = SEEN_AFTER) -> None:
        self.changes.add(time.time() - 1, time.time() + seconds, name)

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
                self._say(f"resumed {node}: {reason}")

    def release_all_holds(self) -> None:
        """At the end: nobody forgets the own holds. An admin looks after those that Slurm placed, and lifts once more what a
        slurmctld that was killed forgot to be lifted."""
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

    # -- gates ----------------------------------------------------------------------------------------------------------

    def look_at_gate(self, calm: bool) -> None:
        """Where the controller waits, if it does, something happens, unless it is calm; then it goes on."""
        gate = self.scene.trouble / "gate"
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(gate.read_text())
            try:
                if not calm:
                    self.at_step(found["point"], found["job"])
            finally:
                gate.unlink(missing_ok=True)
