"""Stands for a training: ten steps a second, python3 train.py STEPS. It goes on where it was stopped."""

import sys
import time

from tiresias.checkpoint import Checkpointer

checkpointer = Checkpointer.from_env()
found = checkpointer.restore()
step, weights = (found.step, found.state["weights"]) if found else (0, [0.0])
print(f"from step {step}", flush=True)
while step < int(sys.argv[1]):
    time.sleep(0.1)
    weights = [weights[0] + 1.0]
    step += 1
    if checkpointer.should_stop(step):
        checkpointer.save(step, {"weights": weights})
        checkpointer.exit_for_requeue()
print(f"done after {step} steps: {weights}", flush=True)
