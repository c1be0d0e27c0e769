"""What the checkpoint API costs a training in each step, in microseconds. Prints JSON.

    python bench/step_cost.py [--steps 50000] [--blocks 200] [--folder .] > step_cost.json

loop: a plain loop of one process in a job folder, processor time. empty: the loop itself; the others are what a step costs more:
should_stop; report with loss and samples, each step; exchange around nothing; checkpointer: should_stop, report and exchange.
ddp: a small model under DistributedDataParallel, 2 processes on CPUs over gloo (needs PyTorch); `wall` and `processor` time of one.
bare: the step; the others are what a step costs more: adapter: agree_by_all_reduce with should_stop; waits: the hooks that measure
the waits of a rank; all: both and report. Blocks of 50 steps of all kinds take turns, so that other load meets all alike.
The figures are the quartiles over turns of the difference to the bare steps of the same turn. Wall time needs a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiresias.checkpoint import Checkpointer
from tiresias.protocol import control

RANKS, BLOCK_STEPS, ROUNDS = 2, 50, 15
CLOCKS = ("wall", "processor")
Step = Callable[[int], object]


def microseconds(step: Step, first: int, steps: int) -> tuple[float, float]:
    """Return the mean wall and processor time of so many steps from `first` on."""
    wall, processor = time.perf_counter_ns(), time.process_time_ns()
    for at in range(first, first + steps):
        step(at)
    took = time.perf_counter_ns() - wall, time.process_time_ns() - processor
    return took[0] / steps / 1000.0, took[1] / steps / 1000.0


def quartiles(values: list[float]) -> list[float]:
    return [round(each, 2) for each in statistics.quantiles(values, n=4)]


def differences(kinds: dict[str, Step], bare: str, turns: int, steps: int) -> dict[str, dict[str, list[float]]]:
    """Return the quartiles of the wall and processor times of `bare`, and of what each other kind of step takes more than that.

    Args:
        kinds: The kinds of steps, which take turns; `bare` is the first.
        bare: The one to which the others are compared.
        turns: Number of turns.
        steps: Steps of each kind in a turn.
    """
    found: dict[str, dict[str, list[float]]] = {clock: {name: [] for name in kinds} for clock in CLOCKS}
    first = 0
    for turn in range(turns + 1):
        least = (0.0, 0.0)
        for name, step in kinds.items():
            took = microseconds(step, first, steps)
            first, least = first + steps, took if name == bare else least
            if turn:  # the first turn warms up
                for clock, value, less in zip(CLOCKS, took, least, strict=True):
                    found[clock][name].append(value if name == bare else value - less)
    return {clock: {name: quartiles(values) for name, values in each.items()} for clock, each in found.items()}


def managed(root: Path) -> Path:
    """Return the control folder of a job."""
    folder = control.job_folder(root, os.getuid(), "7")
    control.make(folder, "")
    return folder


def loop(root: Path, steps: int) -> dict[str, list[float]]:
    """Return the costs in a plain loop, processor time."""
    checkpointer = Checkpointer(root / "saved", control=managed(root))

    def exchange(step: int) -> None:
        with checkpointer.exchange():
            pass

    def report(step: int) -> None:
        checkpointer.report(step, total_steps=10**9, loss=0.5, samples=step)

    def every(step: int) -> None:
        exchange(step)
        report(step)
        checkpointer.should_stop(step)

    kinds: dict[str, Step] = {
        "empty": lambda step: None, "should_stop": checkpointer.should_stop, "report": report, "exchange": exchange,
        "checkpointer": every,
    }  # fmt: skip
    return differences(kinds, "empty", ROUNDS, steps)["processor"]


def ddp(root: Path, blocks: int) -> dict[str, Any]:
    """Return the costs that rank 0 of two processes measures."""
    managed(root)
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank-in", str(root), "--blocks", str(blocks)],
            env=environment | {"RANK": str(rank), "WORLD_SIZE": str(RANKS)},
            stdout=subprocess.PIPE,
        )
        for rank in range(RANKS)
    ]
    output = [process.communicate()[0] for process in ranks]
    if any(process.returncode for process in ranks):
        raise SystemExit("a rank failed: its error is above")
    found: dict[str, Any] = json.loads(output[0])
    return found


def train(root: Path, blocks: int) -> dict[str, Any]:
    """Train as one rank, and return the costs."""
    import torch

    from tiresias.checkpoint.adapters.ddp import agree_by_all_reduce
    from tiresias.checkpoint.adapters.rank_waits import measure_waits

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    checkpointer = Checkpointer(root / "saved", control=control.job_folder(root, os.getuid(), "7"))
    agree_by_all_reduce(checkpointer)

    def made() -> tuple[Any, Step]:
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        optimizer, batch = torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(16, 64)

        def step(at: int) -> None:
            optimizer.zero_grad()
            wrapped(batch).square().mean().backward()
            optimizer.step()

        return wrapped, step

    (_, bare), (measured, waits) = made(), made()
    measure_waits(checkpointer, [measured])

    def adapter(at: int) -> None:
        bare(at)
        checkpointer.should_stop(at)

    def every(at: int) -> None:
        waits(at)
        checkpointer.report(at, total_steps=10**9, loss=0.5, samples=at)
        checkpointer.should_stop(at)

    kinds = {"bare": bare, "adapter": adapter, "waits": waits, "all": every}
    found = differences(kinds, "bare", blocks, BLOCK_STEPS)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return {"torch": torch.__version__, **found}


def main() -> int:
    """Run the measurement and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000, help="of each kind in a round of the plain loop")
    parser.add_argument("--blocks", type=int, default=200, help="of each kind of DistributedDataParallel")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--rank-in", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank_in:
        print(json.dumps(train(args.rank_in, args.blocks)))
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-step-cost-", dir=args.folder) as root:
        found = {"loop": loop(Path(root) / "loop", args.steps), "ddp": ddp(Path(root) / "ddp", args.blocks)}
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({"unit": "microseconds a step, quartiles", **machine, **found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
