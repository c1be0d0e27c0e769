"""A training program for tests: twenty steps per second, full checkpoints, and optionally one kind of wrong behaviour.

    train.py SECONDS [good|ranks|straggles|reports|served|sensitive|ignores|ends|hangs|slow] [until-preempted|until-requeued|FILE]

good: saves and ends on request, one process for the whole job.  ranks: so, as one of several ranks.
straggles: as ranks, whose steps are made together, ten times as slow on the node that the file /shared/slow names.
reports: as good, and reports its progress and loss.  served: so, with steps that are faster by the number of parameter servers.
sensitive: as reports, three times as slow on the node that the file /shared/slow names.
ignores: continues to train without saving.  ends: the requested save is its last step, and it does not save.
hangs: saves at its fifth step, and hangs in the requested save.  slow: the requested save takes four seconds.
until-preempted: the last step is made by a resumed run only, however late the first one is preempted.
until-requeued: by a run after a requeue.  FILE: once that exists.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tiresias.checkpoint import Checkpointer

STEPS_PER_SECOND = 20
SLOW = Path("/shared/slow")


def main(seconds: float, habit: str = "good", end: str = "") -> None:
    checkpointer = Checkpointer.from_env()
    if habit == "straggles":
        checkpointer.report_every(0.05)
    elif habit != "ranks" and hasattr(checkpointer, "register_alone"):  # earlier releases lack it
        checkpointer.register_alone()
    found = checkpointer.restore()
    step = first = found.step if found else 0
    print(f"from step {step}", flush=True)
    while step < seconds * STEPS_PER_SECOND:
        time.sleep(slowness(habit) / STEPS_PER_SECOND)
        if step + 1 < seconds * STEPS_PER_SECOND or may_end(end, first):
            step += 1
        if habit == "straggles":
            with checkpointer.exchange():
                wait_for_others(step)
        if habit in ("reports", "served", "sensitive"):
            loss = 1.0 / (0.01 * step + 0.5) + 0.1
            checkpointer.report(step, total_steps=int(seconds * STEPS_PER_SECOND), loss=loss, samples=64 * step)
        if habit == "hangs" and step == 5:
            checkpointer.save(step, {"step": step})
        if checkpointer.should_stop(step) and habit == "ends":
            break
        if checkpointer.should_stop(step) and habit != "ignores":
            save_and_exit(checkpointer, step, habit if not first else "good")
    print(f"done at step {step}", flush=True)


def may_end(end: str, first: int) -> bool:
    """Return whether the last step may be made. first: the step from which this run resumed, 0 if it did not."""
    if end == "until-preempted":
        return first > 0
    if end == "until-requeued":
        return int(os.environ.get("SLURM_RESTART_COUNT", "0")) > 0
    return not end or Path(end).exists()


def slowness(habit: str) -> float:
    """Return how many times longer a step takes than usual."""
    if habit == "served":
        return 4.0 / int(os.environ["TIRESIAS_SERVERS"])
    return {"straggles": 10.0, "sensitive": 3.0}.get(habit, 1.0) if is_slow() else 1.0


def is_slow() -> bool:
    return SLOW.exists() and SLOW.read_text().strip() == os.environ["SLURMD_NODENAME"]


def wait_for_others(step: int) -> None:
    """Wait until every rank has made this step."""
    ranks, job = int(os.environ["SLURM_NTASKS"]), os.environ["SLURM_JOB_ID"]
    files = [Path(f"/shared/out/{job}-step-of-{rank}") for rank in range(ranks)]
    own = files[int(os.environ["SLURM_PROCID"])]
    own.with_suffix(".new").write_text(str(step))
    own.with_suffix(".new").replace(own)
    while not all(file.exists() and int(file.read_text()) >= step for file in files):
        time.sleep(0.005)


def save_and_exit(checkpointer: Checkpointer, step: int, habit: str) -> None:
    if habit == "hangs":
        time.sleep(3600)
    if habit == "slow":
        time.sleep(4)
    checkpointer.save(step, {"step": step})
    checkpointer.exit_for_requeue()


main(float(sys.argv[1]), *sys.argv[2:])
