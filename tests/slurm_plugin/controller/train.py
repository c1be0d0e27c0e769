"""A training program for tests: twenty steps a second, whole checkpoints, and one habit of a program that misbehaves.

    train.py SECONDS [good|ignores|hangs|slow]

good: saves and leaves when it is told to.  ignores: notices, and trains on without saving.  hangs: saves at its fifth step, then
never comes back from the save that it is told to make.  slow: that save takes four seconds.
"""

from __future__ import annotations

import sys
import time

from tiresias.checkpoint import Checkpointer

STEPS_A_SECOND = 20


def main(seconds: float, habit: str = "good") -> None:
    checkpointer = Checkpointer.from_env()
    found = checkpointer.restore()
    step = first = found.step if found else 0
    print(f"from step {step}", flush=True)
    while step < seconds * STEPS_A_SECOND:
        time.sleep(1 / STEPS_A_SECOND)
        step += 1
        if habit == "hangs" and step == 5:
            checkpointer.save(step, {"step": step})
        if checkpointer.should_stop(step) and habit != "ignores":
            leave(checkpointer, step, habit if not first else "good")
    print(f"done at step {step}", flush=True)


def leave(checkpointer: Checkpointer, step: int, habit: str) -> None:
    if habit == "hangs":
        time.sleep(3600)
    if habit == "slow":
        time.sleep(4)
    checkpointer.save(step, {"step": step})
    checkpointer.exit_for_requeue()


main(float(sys.argv[1]), *sys.argv[2:])
