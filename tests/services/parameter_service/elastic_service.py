"""docs/examples/elastic.py with the parameter service in place of DDP: elastic_service.py STEPS, on any number of ranks.

Each step trains on the same samples on any number of ranks. `sizes` has the step, the ranks and the run of each start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.torch import ResumableSampler, TrainingState
from tiresias.services.parameter_service.agent import ParameterServiceOptimizer
from tiresias.services.parameter_service.agent.service_job import service_job

STEPS, BATCH, MOST = int(sys.argv[1]), 48, 16
rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double()
samples = torch.randn(960, 16, generator=torch.Generator().manual_seed(2)).double()
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
sampler = ResumableSampler(len(data), seed=1, rank=rank, ranks=ranks)
checkpointer = Checkpointer.from_env()
share = checkpointer.batch(BATCH, most=MOST)
optimizer = ParameterServiceOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), model, backwards_per_step=share.passes
)
state = TrainingState(model=model, optimizer=optimizer, sampler=sampler)
step = state.restore(checkpointer)
loader = DataLoader(data, batch_size=share.of_pass, sampler=sampler, generator=torch.Generator())
if rank == 0:
    with Path("sizes").open("a") as sizes:
        print(step, ranks, service_job().run, file=sizes)

while step < STEPS:
    batches = iter(loader)
    for _ in range(sampler.left // share.samples):
        optimizer.zero_grad()
        for _ in range(share.passes):
            inputs, targets = next(batches)
            (torch.nn.functional.mse_loss(model(inputs), targets) / share.passes).backward()
            sampler.taken(len(inputs))
        optimizer.step()
        step += 1
        if step == STEPS:
            break
        if checkpointer.should_stop(step):
            state.save(checkpointer, step)
            checkpointer.exit_for_requeue()
    else:
        sampler.next_epoch()

if rank == 0:
    torch.save(model.state_dict(), "weights.pt")
