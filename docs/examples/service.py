"""Synchronous training by the parameter service on any number of ranks: service.sh, or tsrun python service.py [STEPS]

The ranks need no process group. All stop at the same step; rank 0 saves the model and the state of the optimizer, each rank its
random generators and its place in the data.
"""

import os
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.torch import ResumableSampler, TrainingState
from tiresias.services.parameter_service.agent import ParameterServiceOptimizer

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
ranks = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)).to(
    DEVICE
)
torch.manual_seed(100 + rank)  # another dropout on each rank
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer = ParameterServiceOptimizer(optimizer, model)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
samples = torch.randn(1000, 16, generator=torch.Generator().manual_seed(2))
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
sampler = ResumableSampler(len(data), seed=1, rank=rank, ranks=ranks)
loader = DataLoader(data, batch_size=16, sampler=sampler, generator=torch.Generator())

checkpointer = Checkpointer.from_env()
state = TrainingState(model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler)
step = state.restore(checkpointer)

while step < STEPS:
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(model(inputs.to(DEVICE)), targets.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        sampler.taken(len(inputs))
        step += 1
        checkpointer.report(step, total_steps=STEPS)
        if step == STEPS:
            break
        if checkpointer.should_stop(step):
            state.save(checkpointer, step)
            checkpointer.exit_for_requeue()
        if step % 5000 == 0:  # against a node that fails: the service's aggregators are nodes, too
            state.save(checkpointer, step, wait=False)
    else:
        sampler.next_epoch()

checkpointer.flush()
if rank == 0:
    torch.save(model.state_dict(), "weights.pt")
