"""The program that a replayed job runs: a training loop whose GPUs are asleep and whose everything else is real.

    python3 -m tiresias.sandbox.trainer --job 7 --model vgg19 --gpus 8 --seconds 240 --results /shared/results

It makes the model's number of iterations in --seconds when it sits on as few nodes as possible, and takes longer where
the model minds being spread. Each iteration updates a small state that depends on all iterations before it, so a lost
or repeated one changes the loss curve. It saves its state with a payload of scaled size through the checkpoint store,
periodically and when told to stop, and resumes.

RESULTS/JOB.jsonl, append-only, one object an event, `time` in epoch seconds:
    {"event": "start", "time", "restart", "first_step", "redone", "nodes", "slowdown"}
    {"event": "stop", "time", "step"}            told to stop: it saved and left
    {"event": "finish", "time", "step", "job", "model", "gpus", "steps", "starts", "steps_per_run", "redone", "loss", "curve"}
RESULTS/JOB.step holds the newest iteration done, so that the next run knows what a kill -9 cost.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from tiresias.checkpoint import Checkpointer
from tiresias.sandbox.trainer_events import Events, Progress
from tiresias.sandbox.trainer_state import TrainingState
from tiresias.simulator import models

LOOK = 0.1  # seconds between looks at the stop flag: the iterations in between are done in one go
PAYLOAD_SCALE = 1 / 256  # VGG19's 548 MB become 2.1 MB, GoogleNet's 27 MB 0.1 MB
SHORTEST = 0.001  # seconds: a trace may have jobs of none at all
MEGABYTE = 1_000_000


def main(argv: list[str] | None = None) -> int:
    return Trainer(_parser().parse_args(argv)).train()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trainer", description="A replayed job's training loop.")
    parser.add_argument("--job", required=True, help="its id in the trace")
    parser.add_argument("--model", default=models.DEFAULT)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--seconds", type=float, required=True, help="of training when well placed, in the trace")
    parser.add_argument("--time-scale", type=float, default=1.0, help="how much faster than in the trace")
    parser.add_argument("--gpus-per-node", type=int, default=4)
    parser.add_argument(
        "--placement-effect", action=argparse.BooleanOptionalAction, default=True, help="a bad placement costs speed"
    )
    parser.add_argument("--checkpoint-every", type=float, default=10.0, help="seconds; also when told to stop")
    parser.add_argument(
        "--payload-scale", type=float, default=PAYLOAD_SCALE, help="checkpoint bytes per byte of the model"
    )
    parser.add_argument("--checkpoints", type=Path, help="folder for them (default: the job's own)")
    parser.add_argument("--results", type=Path, required=True)
    return parser


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.model = models.model(args.model)
        self.steps = max(1, round(args.seconds / self.model.iteration))
        self.nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
        spread = models.slowdown(self.model, args.gpus, self.nodes, args.gpus_per_node)
        self.slowdown = spread if args.placement_effect else 1.0
        self.iteration = max(args.seconds, SHORTEST) / args.time_scale / self.steps * self.slowdown
        self.payload = int(self.model.size * MEGABYTE * args.payload_scale)
        self.events = Events(args.results / f"{args.job}.jsonl")
        self.progress = Progress(args.results / f"{args.job}.step")
        self.checkpointer = Checkpointer.from_env(args.checkpoints)

    def train(self) -> int:
        state = self._restored()
        redone = max(0, self.progress.read() - state.step)
        self.events.add(
            event="start", time=time.time(), restart=int(os.environ.get("SLURM_RESTART_COUNT", "0")), first_step=state.step,
            redone=redone, nodes=self.nodes, slowdown=self.slowdown,
        )  # fmt: skip
        return self._loop(state)

    def _loop(self, state: TrainingState) -> int:
        """Deadlines count from the run's start, so that no delay of one look adds to the next; a save stops the clock."""
        first, look = state.step, max(1, int(LOOK / self.iteration))
        started = saved = time.monotonic()
        while state.step < self.steps:
            until = min(state.step + look, self.steps)
            _sleep_until(started + (until - first) * self.iteration)
            state.advance(until)
            self.progress.write(until)
            if until < self.steps and self.checkpointer.should_stop(until):
                self._stop(state)
            if time.monotonic() - saved >= self.args.checkpoint_every:
                before = time.monotonic()
                self._save(state)
                saved = time.monotonic()
                started += saved - before
        return self._finish(state)

    def _restored(self) -> TrainingState:
        found = self.checkpointer.restore()
        return TrainingState.restored(found.state, self.args.job) if found else TrainingState.fresh(self.args.job)

    def _save(self, state: TrainingState) -> None:
        self.checkpointer.save(state.step, state.to_checkpoint(self.payload))

    def _stop(self, state: TrainingState) -> NoReturn:
        self._save(state)
        self.events.add(event="stop", time=time.time(), step=state.step)
        self.checkpointer.exit_for_requeue()

    def _finish(self, state: TrainingState) -> int:
        now = time.time()
        starts = [event for event in self.events.before() if event["event"] == "start"]
        ends = [event["first_step"] + event["redone"] for event in starts[1:]] + [self.steps]
        self.events.add(
            event="finish", time=now, step=state.step, job=self.args.job, model=self.args.model, gpus=self.args.gpus,
            steps=self.steps, starts=[event["time"] for event in starts], redone=sum(event["redone"] for event in starts),
            steps_per_run=[end - event["first_step"] for event, end in zip(starts, ends, strict=True)],
            loss=state.loss, curve=state.curve_text,
        )  # fmt: skip
        return 0


def _sleep_until(moment: float) -> None:
    remaining = moment - time.monotonic()
    if remaining > 0:
        time.sleep(remaining)


if __name__ == "__main__":
    sys.exit(main())
