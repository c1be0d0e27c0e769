"""A plain PyTorch loop that may be preempted at any step: python plain.py [STEPS]

It ends with weights.pt, the same bytes however often it was stopped.
"""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.torch import ResumableSampler, TrainingState

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

torch.manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)
).to(DEVICE)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
scaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE == "cuda")
samples = torch.randn(1000, 16)
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
sampler = ResumableSampler(len(data), seed=1)
# The generator of its own: see the page of adapters/torch.py.
loader = DataLoader(data, batch_size=32, sampler=sampler, generator=torch.Generator())

checkpointer = Checkpointer.from_env()
state = TrainingState(model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, sampler=sampler)
step = state.restore(checkpointer)

while step < STEPS:
    for inputs, targets in loader:
        with torch.autocast(DEVICE, enabled=DEVICE == "cuda"):
            loss = torch.nn.functional.mse_loss(model(inputs.to(DEVICE)), targets.to(DEVICE))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        sampler.taken(len(inputs))
        step += 1
        checkpointer.report(step, total_steps=STEPS)
        if checkpointer.should_stop(step):
            state.save(checkpointer, step)
            checkpointer.exit_for_requeue()
        if step == STEPS:
            break
        if step % 5000 == 0:  # against a node that fails; training goes on while it is written
            state.save(checkpointer, step, wait=False)
    else:
        sampler.next_epoch()

checkpointer.flush()
torch.save(model.state_dict(), "weights.pt")
