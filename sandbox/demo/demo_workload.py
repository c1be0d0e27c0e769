"""The workload of the demonstration: alice fills the cluster with long jobs, and bob submits short ones.

For 4 nodes x 4 GPUs and one threshold of 1600 GPU-seconds. Alice's jobs are demoted to the second queue after some minutes;
then her large job, and soon bob's short ones, preempt them. After bob's last job they resume from their checkpoints.
"""

from __future__ import annotations

from itertools import cycle, islice

from tiresias.simulator.trace import TraceJob

NODES, GPUS_PER_NODE = 4, 4
THRESHOLD = 1600.0  # GPU-seconds: 6 minutes and 40 seconds of four GPUs
_MINUTE = 60.0
# (arrives at minute, GPUs, minutes on them, model)
_LONG = (
    (0.0, 4, 35.0, "vgg16"),
    (0.5, 4, 35.0, "resnet152"),
    (1.0, 4, 35.0, "inception4"),
    (1.5, 4, 35.0, "resnet101"),
    (3.0, 8, 20.0, "vgg19"),
    (32.0, 4, 10.0, "resnet152"),
)
_SHORT = ((1, 3.0, "googlenet"), (2, 5.0, "resnet50"), (4, 2.5, "inception3"), (1, 7.0, "alexnet"), (2, 2.0, "vgg11"),
          (4, 6.0, "resnet50"), (1, 4.0, "googlenet"))  # fmt: skip
_FIRST_SHORT, _EVERY, _SHORTS = 7.5, 1.5, 28
_LARGE_OF_BOB = (25.0, 8, 10.0, "vgg19")


def workload() -> list[TraceJob]:
    """Return the jobs by submit time, in seconds."""
    shorts = [(_FIRST_SHORT + _EVERY * row, *job) for row, job in enumerate(islice(cycle(_SHORT), _SHORTS))]
    submitted = [("alice", *job) for job in _LONG] + [("bob", *job) for job in [*shorts, _LARGE_OF_BOB]]
    return [
        TraceJob(str(number), minute * _MINUTE, gpus, minutes * _MINUTE, user, "", model)
        for number, (user, minute, gpus, minutes, model) in enumerate(sorted(submitted, key=lambda job: job[1]), 1)
    ]
