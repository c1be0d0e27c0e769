"""Two steps of training with Adam; prints a hash of parameters and states."""

import hashlib

import torch

torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(128, 1024)).square().mean()
    loss.backward()
    optimizer.step()
found = hashlib.sha256()
for each in model.parameters():
    found.update(each.detach().numpy())
    found.update(optimizer.state[each]["exp_avg_sq"].numpy())
print(found.hexdigest(), loss.item())
