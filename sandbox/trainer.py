"""The program that a replayed job runs: a training loop whose GPUs sleep; everything else is real.

    python3 -m tiresias.sandbox.trainer --job 7 --model vgg19 --gpus 8 --seconds 240 --results /shared/results

It makes the model's number of iterations in --seconds on as few nodes as possible, and takes longer on more nodes where the
model is sensitive to placement. With --scaling A an elastic job that runs with G GPUs trains (G / --gpus) ** A times as fast; A = 1
is linear. Each iteration updates a small state that depends on all previous iterations, so a lost or
repeated one changes the loss curve. The trainer saves its state with a payload of scaled size through the checkpoint store,
periodically and at the checkpoint signal, and resumes. With --report-every it reports its steps and their total, as a user's
program does.

RESULTS/JOB.jsonl, append-only, one object per event, `time` in epoch seconds:
    {"event": "start", "time", "restart", "first_step", "redone", "nodes", "gpus", "slowdown"}
    {"event": "stop", "time", "step"}            saved and exited after the checkpoint signal
    {"event": "finish", "time", "step", "job", "model", "gpus", "steps", "starts", "steps_per_run", "redone", "loss", "curve"}
RESULTS/JOB.step contains the newest completed iteration, so that the next run can count the iterations lost by a kill -9.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from tiresias.checkpoint import Checkpointer
from tiresias.sandbox.trainer_events import Events, StepFile
from tiresias.sandbox.trainer_state import TrainerState
from tiresias.simulator import models

STOP_CHECK_INTERVAL_S = 0.1  # the iterations between two checks of the stop flag are done at once
PAYLOAD_SCALE = 1 / 256  # VGG19's 548 MB become 2.1 MB, GoogleNet's 27 MB 0.1 MB
MIN_DURATION_S = 0.001  # a trace may contain jobs of 0 s
BYTES_PER_MB = 1_000_000


def main(argv: list[str] | None = None) -> int:
    """Train one job and return the exit code."""
    return Trainer(_parser().parse_args(argv)).train()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trainer", description="A replayed job's training loop.")
    parser.add_argument("--job", required=True, help="its id in the trace")
    parser.add_argument("--model", default=models.DEFAULT)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, required=True, help="training time on as few nodes as possible, in the trace"
    )
    parser.add_argument("--time-scale", type=float, default=1.0, help="seconds of the trace per second")
    parser.add_argument("--gpus-per-node", type=int, default=4)
    parser.add_argument(
        "--scaling", type=float, default=0.0, metavar="A",
        help="speed by GPUs: (GPUs of the run / --gpus) ** A (default: the GPUs of the run do not matter)",
    )  # fmt: skip
    parser.add_argument(
        "--placement-effect",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="training is slower on many nodes",
    )
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        default=10.0,
        help="seconds; a checkpoint is also written at the checkpoint signal",
    )
    parser.add_argument(
        "--payload-scale", type=float, default=PAYLOAD_SCALE, help="checkpoint bytes per byte of the model"
    )
    parser.add_argument(
        "--report-every",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="report the progress, at most once in so many seconds (default: no reports)",
    )
    parser.add_argument(
        "--save-at-sigterm", action=argparse.BooleanOptionalAction, default=True,
        help="SIGTERM is a checkpoint signal too; without it the program ends at SIGTERM, as one without a handler",
    )  # fmt: skip
    parser.add_argument("--checkpoints", type=Path, help="folder for them (default: the job's own)")
    parser.add_argument("--results", type=Path, required=True)
    return parser


class Trainer:
    """The training loop of one replayed job."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.model = models.model(args.model)
        self.steps = max(1, round(args.seconds / self.model.iteration))
        self.nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
        self.gpus = int(os.environ.get("SLURM_NTASKS", args.gpus)) if args.scaling else args.gpus  # a GPU for each task
        spread = models.slowdown(self.model, self.gpus, self.nodes, args.gpus_per_node)
        by_size = (args.gpus / self.gpus) ** args.scaling
        self.slowdown = (spread if args.placement_effect else 1.0) * by_size
        self.iteration = max(args.seconds, MIN_DURATION_S) / args.time_scale / self.steps * self.slowdown
        self.payload = int(self.model.size * BYTES_PER_MB * args.payload_scale)
        self.events = Events(args.results / f"{args.job}.jsonl")
        self.progress = StepFile(args.results / f"{args.job}.step")
        self.checkpointer = Checkpointer.from_env(args.checkpoints)
        self.checkpointer.register_alone()
        self.checkpointer.report_every(args.report_every)
        self._started = self._woken = time.monotonic()
        signal.signal(signal.SIGCONT, self._continued)
        if not args.save_at_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def train(self) -> int:
        """Train to the end, or until the checkpoint signal, and return the exit code."""
        state = self._restored()
        redone = max(0, self.progress.read() - state.step)
        self.events.add(
            event="start",
            time=time.time(),
            restart=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
            first_step=state.step,
            redone=redone,
            nodes=self.nodes,
            gpus=self.gpus,
            slowdown=self.slowdown,
        )
        return self._loop(state)

    def _loop(self, state: TrainerState) -> int:
        """Train with deadlines from the run's start, so that delays do not add up; saves and suspensions are excluded."""
        first, look = state.step, max(1, int(STOP_CHECK_INTERVAL_S / self.iteration))
        self._started = saved = time.monotonic()
        while state.step < self.steps:
            until = min(state.step + look, self.steps)
            self._woken = time.monotonic()
            _sleep_until(self._started + (until - first) * self.iteration)
            state.advance(until)
            self.progress.write(until)
            if self.args.report_every:
                self.checkpointer.report(until, total_steps=self.steps)
            if until < self.steps and self.checkpointer.should_stop(until):
                self._stop(state)
            if time.monotonic() - saved >= self.args.checkpoint_every:
                before = time.monotonic()
                self._save(state)
                saved = time.monotonic()
                self._started += saved - before
        return self._finish(state)

    def _continued(self, *_: Any) -> None:
        """Move the deadlines by the time of a suspension; at most one sleep, of 0.1 s or an iteration, counts as well."""
        now = time.monotonic()
        self._started += now - self._woken
        self._woken = now

    def _restored(self) -> TrainerState:
        found = self.checkpointer.restore()
        return TrainerState.restored(found.state, self.args.job) if found else TrainerState.fresh(self.args.job)

    def _save(self, state: TrainerState) -> None:
        self.checkpointer.save(state.step, state.to_checkpoint(self.payload))

    def _stop(self, state: TrainerState) -> NoReturn:
        self._save(state)
        self.events.add(event="stop", time=time.time(), step=state.step)
        self.checkpointer.exit_for_requeue()

    def _finish(self, state: TrainerState) -> int:
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
