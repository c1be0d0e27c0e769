"""A rank of the training in numpy with as many tensors as declared servers: layers_rank.py SEED STEPS GPU_SECONDS OUT."""

from __future__ import annotations

import sys
import time

import numpy as np

from tests.services.parameter_service.numpy_training import OPTIONS, SIZE, gradient, initial
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.job_site import JobSite
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import read_job_file, service_job
from tiresias.services.parameter_service.messages.agent_messages import InitTensor

SEED, STEPS, GPU_S, OUT = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]

job = service_job()
site = JobSite(job)
client, reports = ServiceClient(job, site.directory()), site.reports()
parameters = initial(SEED, [f"layer{at}" for at in range(read_job_file(job.file)["servers"])])
tensors = [ClientTensor(name, 4 * SIZE, values.data.cast("B")) for name, values in parameters.items()]
client.assign(tensors)
for tensor in tensors:
    if job.rank:
        client.await_declared(tensor, 0)
    else:
        client.declare(tensor, InitTensor(tensor.name, (SIZE,), "float32", "sgd", OPTIONS), tensor.place)
for step in range(STEPS):
    gradients = {name: gradient(values, step, job.rank).data.cast("B") for name, values in parameters.items()}
    time.sleep(GPU_S)  # the forward and backward pass on a GPU, which the private cluster does not have
    for tensor in tensors:
        client.push(tensor, lambda data=gradients[tensor.name]: [data], OPTIONS["lr"])  # type: ignore[misc]
    client.complete(tensors)
    if reports:
        reports.iteration()
client.close()
if job.rank == 0:
    np.savez(OUT, **parameters)  # type: ignore[arg-type]
