"""What fails around a job: its processes, the controller's clock, disks and the control folder."""

from __future__ import annotations

import time

from tests.chaos.remedies import Remedies

STATE_RESERVE = "filler"


class ProcessTroubles(Remedies):
    """The troubles of programs, clocks and file systems; each method returns what it did, None: nothing."""

    def kill_supervisor(self, _job: str) -> str | None:
        return self._kill("wrappers.supervisor")

    def kill_rank(self, _job: str) -> str | None:
        return self._kill("sandbox.trainer --job")

    def _kill(self, pattern: str) -> str | None:
        """Its job fails, as it would without Tiresias."""
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

    def step_clock(self, _job: str) -> str | None:
        """The controller's alone: the machine's clock must not be set, and Linux has no namespace for it."""
        if not self._breaks("clock"):
            return None
        step = self._dice.choice([-3600, -30, 30, 3600])
        self._write("clock", str(step))
        self.blind.append((time.time() - 1, time.time() + 40))
        if step < 0:
            self.ahead.append((time.time() + step, time.time()))
        self._mend_later(self._dice.uniform(4, 15), "clock", lambda: self._write("clock", "0"))
        return f"by {step} s"

    def slow_control_folder(self, _job: str) -> str | None:
        if not self._breaks("slow"):
            return None
        seconds = self._dice.choice([0.02, 0.1, 0.5])
        self._write("slow", str(seconds))
        self.blind.append((time.time() - 1, time.time() + 30))
        self._mend_later(self._dice.uniform(4, 10), "slow", lambda: self._write("slow", "0"))
        return f"by {seconds} s a read"

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
        self._mend_later(self._dice.uniform(2, 10), "disk", lambda: self.scene.cluster.run(remove))
        return ""

    def take_control_folder_away(self, _job: str) -> str | None:
        if not self._breaks("control"):
            return None
        self.changes.add(time.time() - 1, time.time() + 20)
        here, away = (self.scene.cluster.shared / "tiresias" / name for name in ("control", "control.away"))
        here.rename(away)

        def back() -> None:
            if here.exists():  # a job that started meanwhile made it again
                self.scene.cluster.run(["rm", "-rf", "/shared/tiresias/control"])
            away.rename(here)

        self._mend_later(self._dice.choice([0.2, 1.0, 4.0]), "control", back)
        return ""
