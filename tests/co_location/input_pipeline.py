"""A training program with an input pipeline: each step inflates a batch of compressed samples, then waits as for a GPU.

    input_pipeline.py --job NAME --steps N --batch SAMPLES --wait SECONDS --cores 0,1 --results FOLDER
    input_pipeline.py --rate                                  # prints the samples that a processor second inflates

The program binds itself to the core of its node: the first core for gpu01, the second one for gpu02. So programs of one node
compete for a real core, and those of different nodes do not. It reports its progress after each step, saves and ends on request,
and writes the events of `tiresias.sandbox.trainer`, with the node and the GPUs of a run.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
import zlib
from pathlib import Path
from typing import NoReturn

from tiresias.checkpoint import Checkpointer
from tiresias.sandbox.trainer_events import Events, StepFile
from tiresias.sandbox.trainer_state import TrainerState

SAMPLE_BYTES = 64 * 1024
REPORT_INTERVAL_S = 0.2
MEASURED_S = 0.5  # processor seconds


def main() -> int:
    """Train one job, or measure the processor; return the exit code."""
    args = _parser().parse_args()
    if args.rate:
        print(rate())
        return 0
    return Training(args).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", action="store_true")
    parser.add_argument("--job", default="")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--cores", type=lambda text: [int(word) for word in text.split(",")], default=[0])
    parser.add_argument("--results", type=Path, default=Path())
    return parser


def sample() -> bytes:
    """Return one compressed sample."""
    chance = random.Random(1)
    return zlib.compress(bytes(chance.choices(range(256), weights=range(256, 0, -1), k=SAMPLE_BYTES)))


def rate() -> float:
    """Return the samples that a processor second inflates."""
    compressed, count, began = sample(), 0, time.thread_time()
    while time.thread_time() < began + MEASURED_S:
        zlib.decompress(compressed)
        count += 1
    return count / (time.thread_time() - began)


class Training:
    """The training of one job."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.node = args, os.environ["SLURMD_NODENAME"]
        os.sched_setaffinity(0, {args.cores[int(re.findall(r"\d+$", self.node)[0]) - 1]})
        self.events = Events(args.results / f"{args.job}.jsonl")
        self.progress = StepFile(args.results / f"{args.job}.step")
        self.checkpointer = Checkpointer.from_env()
        self.checkpointer.register_alone()
        self.checkpointer.report_every(REPORT_INTERVAL_S)

    def run(self) -> int:
        """Train to the end, or until a checkpoint is requested, and return the exit code."""
        args, compressed = self.args, sample()
        found = self.checkpointer.restore()
        state = TrainerState.restored(found.state, args.job) if found else TrainerState.fresh(args.job)
        self.events.add(
            event="start", time=time.time(), restart=int(os.environ.get("SLURM_RESTART_COUNT", "0")), first_step=state.step,
            redone=max(0, self.progress.read() - state.step), nodes=1, gpus=1, slowdown=1.0,
            node=self.node, devices=os.environ["CUDA_VISIBLE_DEVICES"],
        )  # fmt: skip
        while state.step < args.steps:
            for _ in range(args.batch):
                zlib.decompress(compressed)
            time.sleep(args.wait)
            state.advance(state.step + 1)
            self.progress.write(state.step)
            self.checkpointer.report(state.step, total_steps=args.steps)
            if state.step < args.steps and self.checkpointer.should_stop(state.step):
                self._stop(state)
        self.events.add(event="finish", time=time.time(), step=state.step, steps=args.steps, curve=state.curve_text)
        return 0

    def _stop(self, state: TrainerState) -> NoReturn:
        self.checkpointer.save(state.step, state.to_checkpoint(0))
        self.events.add(event="stop", time=time.time(), step=state.step)
        self.checkpointer.exit_for_requeue()


if __name__ == "__main__":
    sys.exit(main())
