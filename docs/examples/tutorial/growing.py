"""Stands for a training on all GPUs of the job: python3 growing.py STEPS. A step on G GPUs takes 0.4 s / G.

Each step appends its number, the GPUs and the loss to the file `losses`.
"""

import os
import sys
import time
from pathlib import Path

from tiresias.checkpoint import Checkpointer

gpus = int(os.environ["SLURM_NTASKS"])  # one for each task
checkpointer = Checkpointer.from_env()
checkpointer.register_alone()  # this one process uses all GPUs
found = checkpointer.restore()
step, weight = (found.step, found.state["weight"]) if found else (0, 1.0)
while step < int(sys.argv[1]):
    time.sleep(0.4 / gpus)
    weight -= 0.005 * weight
    step += 1
    with Path("losses").open("a") as losses:
        print(step, gpus, f"{weight**2:.4f}", file=losses)
    checkpointer.report(step, int(sys.argv[1]), loss=weight**2)
    if checkpointer.should_stop(step):
        checkpointer.save(step, {"weight": weight})
        checkpointer.exit_for_requeue()
