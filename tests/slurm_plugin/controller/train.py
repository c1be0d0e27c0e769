"""A training program for tests: twenty steps per second, full checkpoints, and optionally one kind of wrong behaviour.

    train.py SECONDS [good|ranks|reports|ignores|hangs|slow]

good: saves and ends on request, one process for the whole job.  ranks: so, as one of several ranks.
reports: as good, and reports its progress and loss.  ignores: continues to train without saving.
hangs: saves at its fifth step, and hangs in the requested save.  slow: the requested save takes four seconds.
"""

from __future__ import annotations

import sys
import time

from tiresias.checkpoint import Checkpointer

STEPS_PER_SECOND = 20


def main(seconds: float, habit: str = "good") -> None:
    checkpointer = Checkpointer.from_env()
    if habit != "ranks":
        checkpointer.register_alone()
    found = checkpointer.restore()
    step = first = found.step if found else 0
    print(f"from step {step}", flush=True)
    while step < seconds * STEPS_PER_SECOND:
        time.sleep(1 / STEPS_PER_SECOND)
        step += 1
        if habit == "reports":
            loss = 1.0 / (0.01 * step + 0.5) + 0.1
            checkpointer.report(step, total_steps=int(seconds * STEPS_PER_SECOND), loss=loss, samples=64 * step)
        if habit == "hangs" and step == 5:
            checkpointer.save(step, {"step": step})
        if checkpointer.should_stop(step) and habit != "ignores":
            save_and_exit(checkpointer, step, habit if not first else "good")
    print(f"done at step {step}", flush=True)


def save_and_exit(checkpointer: Checkpointer, step: int, habit: str) -> None:
    if habit == "hangs":
        time.sleep(3600)
    if habit == "slow":
        time.sleep(4)
    checkpointer.save(step, {"step": step})
    checkpointer.exit_for_requeue()


main(float(sys.argv[1]), *sys.argv[2:])
