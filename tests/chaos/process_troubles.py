"""What fails around a job: its processes, the controller's clock, disks and the control folder."""

from __future__ import annotations

import contextlib
import errno
import itertools
import time
from collections.abc import Callable
from pathlib import Path

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
        here = self.scene.cluster.shared / "tiresias" / "control"
        away = here.with_name("control.away")
        if not here.exists() or not self._breaks("control"):
            return None
        self.changes.add(time.time() - 1, time.time() + 20)
        here.rename(away)
        seconds = self._dice.choice([0.2, 1.0, 4.0])
        self._mend_later(seconds, "control", lambda: put_back(away, here, self._remove_shared))
        return ""

    def _remove_shared(self, folder: Path) -> None:
        """Remove a folder beside the control folder. Files of jobs' owners are not this user's, but in the cluster root's."""
        self.scene.cluster.run(["rm", "-rf", f"/shared/tiresias/{folder.name}"])


def put_back(away: Path, here: Path, remove: Callable[[Path], object]) -> None:
    """Rename a folder back. What programs have made in its place is removed; they may make it again at any moment."""
    for number in itertools.count():
        made = here.with_name(f"{here.name}.made-{number}")
        with contextlib.suppress(FileNotFoundError):  # none was made
            here.rename(made)
            remove(made)
        try:
            away.rename(here)
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
