"""A rank of the training in numpy as a program of a Slurm job: train_rank.py SEED STEPS GPU_SECONDS OUT.

The agent without PyTorch, as the system's Python of the private cluster has none. Each 15th step is a checkpoint, and a program
that is started again resumes from the newest one. OUT.step has the last step, OUT.runs a line for each further run: where it
began, and where the run before it was.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from tests.services.parameter_service.numpy_training import OPTIONS, SIZE, TENSORS, gradient, initial
from tiresias.checkpoint import Checkpointer
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.job_site import JobSite
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import service_job
from tiresias.services.parameter_service.messages.agent_messages import InitTensor

SEED, STEPS, GPU_S, OUT = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
SAVE_EVERY = 15
LAST_STEP, unfinished = OUT.with_suffix(".step"), OUT.with_suffix(".unfinished")

job = service_job()
site = JobSite(job)
client, reports = ServiceClient(job, site.directory()), site.reports()
checkpointer = Checkpointer(OUT.with_suffix(".checkpoints"))
parameters = initial(SEED)
places = {name: parameters[name].data.cast("B") for name in TENSORS}
tensors = [ClientTensor(name, len(places[name]), places[name]) for name in TENSORS]


def restored() -> tuple[int, dict[str, bytes], dict[str, list[int]]]:
    """Return the step of the newest checkpoint, the optimizer's state of each tensor and its counts; restore the parameters."""
    found = checkpointer.restore()
    if job.rank == 0 and LAST_STEP.exists():
        with OUT.with_suffix(".runs").open("a") as file:
            print(found.step if found else 0, LAST_STEP.read_text(), file=file)
    if found is None:
        return 0, {}, {}
    for name in TENSORS:
        parameters[name][:] = np.frombuffer(found.state[name], np.float32)
    return found.step, {name: found.state[f"{name}.momentum"] for name in TENSORS}, found.state["counts"]


def declare(step: int, momenta: dict[str, bytes], counts: dict[str, list[int]]) -> None:
    """Store all tensors at a step, on rank 0; wait for that on the other rank."""
    client.assign(tensors)
    for tensor in tensors:
        if job.rank:
            client.await_declared(tensor, step)
            continue
        count = tuple(counts.get(tensor.name, ()))
        content = InitTensor(tensor.name, (SIZE,), "float32", "sgd", OPTIONS, step, count, 0)
        state = [memoryview(momenta[tensor.name])] if step else []
        client.declare(tensor, content, places[tensor.name], *state)


def save(step: int) -> None:
    """Commit parameters and the optimizer's state; rank 0 has them."""
    state: dict[str, object] = {}
    if job.rank == 0:
        counts = {}
        for tensor in tensors:
            pulled = bytearray(2 * tensor.bytes)
            counts[tensor.name] = list(client.pull_state(tensor, memoryview(pulled)).counts)
            state |= {tensor.name: bytes(places[tensor.name]), f"{tensor.name}.momentum": pulled[tensor.bytes :]}
        state["counts"] = counts
    checkpointer.save(step, state)


first, saved_momenta, saved_counts = restored()
declare(first, saved_momenta, saved_counts)
for step in range(first, STEPS):
    gradients = {name: gradient(parameters[name], step, job.rank).data.cast("B") for name in TENSORS}
    time.sleep(GPU_S)  # the forward and backward pass on a GPU, which this machine does not have
    for tensor in tensors:
        client.push(tensor, lambda data=gradients[tensor.name]: [data], OPTIONS["lr"])  # type: ignore[misc]
    client.complete(tensors)
    if reports:
        reports.iteration()
    if job.rank == 0:
        unfinished.write_text(str(step + 1))
        unfinished.replace(LAST_STEP)
    if (step + 1) % SAVE_EVERY == 0:
        save(step + 1)
client.close()
if job.rank == 0:
    np.savez(OUT, first=parameters["first"], second=parameters["second"])
