"""Runs the controller until the journal is about to write, or has just written, one given step; then SIGKILL.

    python3 kill_at.py KIND STEP before|after CONFIG

STEP is a journaled step of a start or a preemption, "begin" for its first line, or "finish" for its last.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from tiresias.__main__ import main
from tiresias.slurm_plugin.state.journal import Intent, Journal

KIND, STEP, WHEN, CONFIG = sys.argv[1:]


def _deadly(name: str) -> None:
    original = getattr(Journal, name)

    def wrapper(journal: Journal, intent: Intent, *rest: Any) -> None:
        here = intent.kind == KIND and (name == STEP or (name == "step" and rest[0] == STEP))
        if here and WHEN == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        original(journal, intent, *rest)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(Journal, name, wrapper)


for method in ("begin", "step", "finish"):
    _deadly(method)
sys.exit(main(["controller", "--config", CONFIG]))
