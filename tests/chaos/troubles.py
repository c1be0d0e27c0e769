"""What goes wrong in a chaos run: each trouble does its harm at once and may leave a remedy for later.

A trouble is a method named by what it does; `TROUBLES` has the frequency of those that occur by themselves, `AT_STEPS` of those at
a step of a start or a preemption, while the controller waits there (lives.py). Everything is logged with its second.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Mapping

from tests.chaos.daemon_troubles import DaemonTroubles
from tests.chaos.owner_troubles import OwnerTroubles
from tests.chaos.process_troubles import ProcessTroubles
from tests.chaos.rule_troubles import RULES, RuleTroubles
from tiresias.errors import TiresiasError

# seconds: of each CALM_EVERY the last CALM have no troubles, so that what is judged in quiet alone (windows.py) is judged
CALM_EVERY, CALM = 150.0, 60.0

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


class Troubles(DaemonTroubles, ProcessTroubles, OwnerTroubles, RuleTroubles):
    """All troubles, and the choice of the next one."""

    by_themselves: Mapping[str, int] = TROUBLES
    at_steps: Mapping[str, int] = AT_STEPS

    def plan(self, seconds: float, every: float) -> list[tuple[float, str]]:
        """The troubles that come by themselves, by second."""
        dice, moment, planned = random.Random(self._dice.random()), 0.0, []
        while (moment := moment + dice.expovariate(1 / every)) < seconds:
            name = dice.choices(list(self.by_themselves), list(self.by_themselves.values()))[0]
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
            self._report(f"{name} {what}{f' at {where}' if where else ''}".rstrip())

    def at_step(self, point: str, job: str) -> None:
        name = self._dice.choices(list(self.at_steps), list(self.at_steps.values()))[0]
        self.strike(name, job, point)

    def nothing(self, _job: str) -> str:
        return ""

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
