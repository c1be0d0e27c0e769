"""Run the controller until right before or right after one given step; then send it SIGKILL, or once the signal TEST_SIGNAL.

    python3 kill_at.py KIND STEP before|after CONFIG

STEP is a journaled step of a start or a preemption, "begin" for its first line, "finish" for its last, or "pinned" of a start or a
suggestion of nodes (mode assist): the pin and its read-back, before the release.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from tiresias.__main__ import main
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.transitions.starting import Starting
from tiresias.slurm_plugin.transitions.suggesting import Suggesting

KIND, STEP, WHEN, CONFIG = sys.argv[1:]
_signals = [signal.Signals[f"SIG{os.environ.get('TEST_SIGNAL', 'KILL')}"]]


def _send() -> None:
    if _signals:
        os.kill(os.getpid(), _signals.pop())


def _deadly(owner: type, name: str) -> None:
    original = getattr(owner, name)

    def wrapper(self: Any, intent: Intent, *rest: Any) -> Any:
        here = intent.kind == KIND and (name.strip("_") == STEP or (name == "step" and rest[0] == STEP))
        if here and WHEN == "before":
            _send()
        outcome = original(self, intent, *rest)
        if here:
            _send()
        return outcome

    setattr(owner, name, wrapper)


for method in ("begin", "step", "finish"):
    _deadly(Journal, method)
for pinning in (Starting, Suggesting):
    _deadly(pinning, "_pinned")
sys.exit(main(["controller", "--config", CONFIG]))
