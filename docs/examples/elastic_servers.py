"""Synchronous SGD with parameter servers; the numbers of workers and of servers may change from run to run (elastic_servers.sh).

    python elastic_servers.py server
    python elastic_servers.py worker [STEPS]

The parameters are divided among the servers (section 5.3 of Optimus). In each step a server adds up the gradients of all workers,
makes the step of its parameters and sends them. Servers store nothing: before a save the workers fetch the momenta, and the
checkpoint fits any number of servers.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer, ServerReport
from tiresias.checkpoint.adapters.torch import ResumableSampler, TrainingState
from tiresias.protocol.parameter_assignment import assign

BATCH, RATE, MOMENTUM = 48, 0.01, 0.9
END, STEP, FETCH = range(3)  # what the first worker requests of the servers
role, STEPS = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 100_000
workers, servers = int(os.environ["WORKERS"]), int(os.environ["TIRESIAS_SERVERS"])
own = int(os.environ["SLURM_PROCID"])  # within the workers, or the servers

# The ranks of torch.distributed: the workers, then the servers.
dist.init_process_group("gloo", rank=own if role == "worker" else workers + own, world_size=workers + servers)
among_workers = dist.new_group(range(workers))
with_server = [dist.new_group([*range(workers), workers + server]) for server in range(servers)]

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double()
parameters = list(model.parameters())
momenta = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros_like(each), False) for each in parameters])
places = [[] for _ in range(servers)]  # of each server: blocks, and which part of each
begun = [0] * len(parameters)
for part in assign([each.numel() for each in parameters], servers).slices:
    places[part.server].append((part.block, slice(begun[part.block], begun[part.block] + part.size)))
    begun[part.block] += part.size


def taken(blocks, server):
    """Return the parts of these blocks that a server has, as one vector."""
    return torch.cat([blocks[block].detach().view(-1)[part] for block, part in places[server]])


def put(blocks, server, vector) -> None:
    """Write the parts of these blocks that a server has."""
    sizes = [part.stop - part.start for _, part in places[server]]
    for (block, part), values in zip(places[server], vector.split(sizes), strict=True):
        blocks[block].detach().view(-1)[part] = values


def sent(blocks, server, source) -> None:
    """Send the parts that a server has from a rank to the workers and the server."""
    vector = taken(blocks, server)
    dist.broadcast(vector, source, group=with_server[server])
    put(blocks, server, vector)


def serve() -> None:
    """Hold the parameters of one server until the first worker ends the run."""
    signal.signal(signal.Signals[f"SIG{os.environ['TIRESIAS_SIGNAL']}"], signal.SIG_IGN)  # the workers save
    rank, report = workers + own, ServerReport.from_env()  # by which the controller finds slow servers
    for blocks in (parameters, momenta):
        sent(blocks, own, 0)
    while (what := requested(report)) != END:
        if what == FETCH:
            sent(momenta, own, rank)
            continue
        gradient = torch.zeros_like(taken(parameters, own))
        with report.exchange():
            dist.reduce(gradient, rank, group=with_server[own])
        momentum = MOMENTUM * taken(momenta, own) + gradient
        put(momenta, own, momentum)
        put(parameters, own, taken(parameters, own) - RATE * momentum)
        with report.exchange():
            sent(parameters, own, rank)
        report.stepped()


def requested(report) -> int:
    """Wait for what the first worker requests."""
    found = torch.zeros(1, dtype=torch.int64)
    with report.exchange():
        dist.broadcast(found, 0)
    return int(found.item())


def request(what) -> None:
    dist.broadcast(torch.tensor([what]), 0)


def train(inputs, targets) -> torch.Tensor:
    """Make one step; return this worker's part of the loss."""
    model.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets) / workers
    loss.backward()
    request(STEP)
    gradients = [each.grad for each in parameters]
    for server in range(servers):
        dist.reduce(taken(gradients, server), workers + server, group=with_server[server])
        sent(parameters, server, workers + server)
    return loss.detach()


def work() -> None:
    samples = torch.randn(960, 16, generator=torch.Generator().manual_seed(2)).double()  # a multiple of BATCH
    data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
    sampler = ResumableSampler(len(data), seed=1, rank=own, ranks=workers)
    checkpointer = Checkpointer.from_env()
    state = TrainingState(model=model, momenta=momenta, sampler=sampler)
    step = state.restore(checkpointer)
    for server in range(servers):
        for blocks in (parameters, momenta):
            sent(blocks, server, 0)
    loader = DataLoader(
        data, batch_size=checkpointer.batch(BATCH).samples, sampler=sampler, generator=torch.Generator()
    )
    losses = Path("losses").open("a") if own == 0 else None  # noqa: SIM115 - until the end of the program
    while step < STEPS:
        for inputs, targets in loader:
            loss = train(inputs, targets)
            sampler.taken(len(inputs))
            dist.reduce(loss, 0, group=among_workers)
            step += 1
            if losses:
                print(step, loss.item(), workers, servers, file=losses, flush=True)
            checkpointer.report(step, total_steps=STEPS)
            if step == STEPS:
                break
            if checkpointer.should_stop(step):
                request(FETCH)
                for server in range(servers):
                    sent(momenta, server, workers + server)
                state.save(checkpointer, step)
                request(END)
                checkpointer.exit_for_requeue()
        else:
            sampler.next_epoch()
    request(END)


work() if role == "worker" else serve()
dist.destroy_process_group()
