"""A training under submitit that may be preempted: python with_submitit.py [STEPS [SECONDS_A_STEP]]"""

import sys
import time
from pathlib import Path

import submitit

import tiresias.checkpoint.adapters.submitit

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000
SECONDS = float(sys.argv[2]) if sys.argv[2:] else 0.0


class Training(submitit.helpers.Checkpointable):
    """submitit pickles it at a preemption, and calls it again in the next run."""

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self.state = 0, 1.0  # step, loss; assigned at once, as the signal may come between any two lines

    def __call__(self) -> float:
        rank = submitit.JobEnvironment().global_rank
        while self.state[0] < self.steps:
            time.sleep(self.seconds)
            step, loss = self.state[0] + 1, self.state[1] * 0.99
            if rank == 0:
                with Path("losses").open("a") as losses:
                    print(step, loss, file=losses)
            self.state = step, loss
        return self.state[1]


if __name__ == "__main__":
    tiresias.checkpoint.adapters.submitit.use()
    executor = submitit.AutoExecutor(folder="logs")
    executor.update_parameters(timeout_min=5, nodes=4, tasks_per_node=1, gpus_per_node=4, cpus_per_task=1)
    print(executor.submit(Training(STEPS, SECONDS)).job_id)
