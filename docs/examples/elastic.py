"""DistributedDataParallel on a number of ranks that may change from run to run: tsrun python elastic.py [STEPS]

Each step trains on the same BATCH samples on any number of ranks, so the loss curve is that of a job of a fixed size.
"""

import os
import sys
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.ddp import agree_by_all_reduce
from tiresias.checkpoint.adapters.torch import ResumableSampler, TrainingState

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000
BATCH, MOST = 48, 16  # samples of a step on all ranks together; samples that fit into one pass on one GPU

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
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double().to(device)
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
samples = torch.randn(960, 16, generator=torch.Generator().manual_seed(2)).double()  # a multiple of BATCH
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
sampler = ResumableSampler(len(data), seed=1, rank=rank, ranks=ranks)

checkpointer = Checkpointer.from_env()
agree_by_all_reduce(checkpointer)
state = TrainingState(model=model, optimizer=optimizer, sampler=sampler)  # not the wrapper
step = state.restore(checkpointer)
share = checkpointer.batch(BATCH, most=MOST)
loader = DataLoader(data, batch_size=share.of_pass, sampler=sampler, generator=torch.Generator())
losses = Path("losses").open("a") if rank == 0 else None  # noqa: SIM115 - until the end of the program


def train(batches) -> float:
    """Make one step of several passes; return the loss of this rank."""
    total = 0.0
    optimizer.zero_grad()
    for place in range(share.passes):
        inputs, targets = next(batches)
        parallel.require_backward_grad_sync = place == share.passes - 1  # the gradients travel once in each step
        loss = torch.nn.functional.mse_loss(parallel(inputs.to(device)), targets.to(device)) / share.passes
        loss.backward()
        total += loss.item()
        sampler.taken(len(inputs))
    optimizer.step()
    return total


while step < STEPS:
    batches = iter(loader)
    for _ in range(sampler.left // share.samples):
        loss = torch.tensor(train(batches), dtype=torch.float64, device=device)
        torch.distributed.reduce(loss, 0)
        step += 1
        if losses:
            print(step, loss.item() / ranks, ranks, file=losses, flush=True)
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
