"""A rank of the training in numpy as a program of a Slurm job: train_rank.py SEED STEPS GPU_SECONDS OUT.

The agent without PyTorch, as the system's Python of the private cluster has none.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from tests.services.parameter_service.numpy_training import OPTIONS, SIZE, TENSORS, gradient, initial
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.job_site import JobSite
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import service_job
from tiresias.services.parameter_service.messages.agent_messages import InitTensor

SEED, STEPS, GPU_S, OUT = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
job = service_job()
site = JobSite(job)
client, reports = ServiceClient(job, site.directory()), site.reports()
parameters = initial(SEED)
places = {name: parameters[name].data.cast("B") for name in TENSORS}
tensors = [ClientTensor(name, len(places[name]), places[name]) for name in TENSORS]
client.assign(tensors)
for tensor in tensors:
    if job.rank == 0:
        client.declare(
            tensor, InitTensor(tensor.name, (SIZE,), "float32", "sgd", OPTIONS, 0, (), 0), places[tensor.name]
        )
    else:
        client.await_declared(tensor, 0)
for step in range(STEPS):
    gradients = {name: gradient(parameters[name], step, job.rank).data.cast("B") for name in TENSORS}
    time.sleep(GPU_S)  # the forward and backward pass on a GPU, which this machine does not have
    for tensor in tensors:
        client.push(tensor, lambda data=gradients[tensor.name]: [data], OPTIONS["lr"])  # type: ignore[misc]
    client.complete(tensors)
    if reports:
        reports.iteration()
    if job.rank == 0 and step % 20 == 0:
        OUT.with_suffix(".step").write_text(str(step))
client.close()
if job.rank == 0:
    np.savez(OUT, first=parameters["first"], second=parameters["second"])
