"""DistributedDataParallel on any number of nodes: tsrun python ddp.py [STEPS]

All ranks stop at the same step; rank 0 saves the model, each rank its random generators.
"""

import os
import sys

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.ddp import agree_by_all_reduce
from tiresias.checkpoint.adapters.torch import ResumableSampler, TrainingState

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000

# srun names the ranks in its own way; torchrun has done this already.
os.environ.setdefault("RANK", os.environ.get("SLURM_PROCID", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if torch.cuda.is_available():
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl")
else:
    device = torch.device("cpu")
    torch.distributed.init_process_group("gloo")

torch.manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)
).to(device)
torch.manual_seed(100 + rank)  # another dropout on each rank
# find_unused_parameters keeps the buckets as they are: otherwise the first iteration of each run sums in another order.
parallel = DistributedDataParallel(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=STEPS)
samples = torch.randn(1000, 16, generator=torch.Generator().manual_seed(2))
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
sampler = ResumableSampler(len(data), seed=1, rank=rank, ranks=ranks)
loader = DataLoader(data, batch_size=16, sampler=sampler, generator=torch.Generator())

checkpointer = Checkpointer.from_env()
agree_by_all_reduce(checkpointer)
state = TrainingState(model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler)  # not the wrapper
step = state.restore(checkpointer)

while step < STEPS:
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(parallel(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        sampler.taken(len(inputs))
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
torch.distributed.destroy_process_group()
