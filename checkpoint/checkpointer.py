"""The interface for training programs: restore, train until asked to stop, save, leave.

    checkpointer = Checkpointer.from_env()
    found = checkpointer.restore()
    step = found.step if found else 0
    while step < steps:
        step = train_one_more(...)
        if step % 1000 == 0:
            checkpointer.save(step, {"weights": weights, "rng": rng_state}, wait=False)
        checkpointer.report(step, total_steps=steps)
        if checkpointer.should_stop(step):
            checkpointer.save(step, {"weights": weights, "rng": rng_state})
            checkpointer.exit_for_requeue()

The checkpoint signal (TIRESIAS_SIGNAL, default USR2) and SIGTERM only set a flag. The same program runs outside of Slurm: it then
stops for these signals only. All ranks call each method, with the same steps.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from tiresias.checkpoint import signals
from tiresias.checkpoint.agreement import POLL_S
from tiresias.checkpoint.async_save import AsyncSaves
from tiresias.checkpoint.global_batch import LocalBatch, local_batch
from tiresias.checkpoint.program_report import ProgramReport
from tiresias.checkpoint.progress_report import ProgressReport
from tiresias.checkpoint.rank_group import Agrees, Alone, Launch
from tiresias.checkpoint.retention import KeepLast, RetentionPolicy, policies_from_env
from tiresias.checkpoint.snapshot import Snapshots
from tiresias.checkpoint.state import Checkpoint
from tiresias.checkpoint.store import Store
from tiresias.checkpoint.this_run import ThisRun, is_this_jobs
from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError
from tiresias.protocol import control, convergence, environment, files, rank_files
from tiresias.protocol.convergence import Convergence
from tiresias.protocol.job_log import log_line


class Checkpointer:
    """Saves, restores and stops one rank of a training program.

    Create it in the main thread: signal handlers that were installed before are called after this one's.

    Args:
        folder: Folder of the checkpoints.
        control: The job's control folder; None: only signals request a stop.
        restart: Slurm's restart count of this run.
        signal_name: The checkpoint signal without SIG.
        world: This rank; by default from the environment.
        retention: Policies for older checkpoints (retention.py).
        submission: The number of the job's submission, which its control folder carries.
        start: Epoch second at which this run began by Slurm's record, 0: not known.

    Attributes:
        world: This rank and the number of ranks.
        store: The store of the checkpoints.
    """

    def __init__(
        self, folder: Path | str, *, control: Path | None = None, restart: int = 0, signal_name: str = signals.DEFAULT,
        world: World | None = None, retention: Iterable[RetentionPolicy] = (KeepLast(),), submission: str = "",
        start: int = 0,
    ) -> None:  # fmt: skip
        self.world = world or World.from_env()
        self._requested = self._stopping = False
        self._polled_at, self._restart = -POLL_S, restart
        signals.on((signals.number(signal_name), signal.SIGTERM), self._flag)
        self._program = ProgramReport(control, restart, self.world, Path(folder), submission, start)
        self._progress = ProgressReport(None if self.world.rank else self._program.folder, restart)
        self._resumed = 0
        self._home = (self._program.folder or Path(folder)) / f".agreement-.{self.world.launch}"
        self._launch = Launch(self._home, self.world) if self.world.size > 1 else Alone()
        self._agreement: Agrees = self._launch
        self.store = Store(Path(folder), retention, self._launch.dead)
        self._async_saves, self._snapshots = AsyncSaves(), Snapshots()

    @classmethod
    def from_env(
        cls,
        folder: Path | str | None = None,
        retention: Iterable[RetentionPolicy] | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> Checkpointer:
        """Create a Checkpointer from the environment that the job's supervisor set up.

        Args:
            folder: Folder of the checkpoints; by default the job's own, and ./checkpoints outside of a managed job.
            retention: Policies; by default from TIRESIAS_KEEP, TIRESIAS_KEEP_EVERY and TIRESIAS_KEEP_VERIFIED.
            env: The environment.

        Raises:
            UsageError: A variable has an invalid value.
        """
        run = ThisRun.from_env(env)
        its_own = run.control or is_this_jobs(env, environment.CHECKPOINT_DIR)  # its control folder may be unavailable
        home = folder or (env.get(environment.CHECKPOINT_DIR) if its_own else None) or "checkpoints"
        return cls(
            home,
            control=run.control,
            restart=run.restart,
            signal_name=env.get(environment.SIGNAL) or signals.DEFAULT,
            world=World.from_env(env),
            retention=policies_from_env(env) if retention is None else retention,
            submission=run.submission,
            start=run.start,
        )

    def agree_by(self, agreement: Agrees) -> None:
        """Replace the agreement by files with an adapter's all-reduce. Call it on every rank, before the first should_stop."""
        self._agreement = agreement

    def restore(self, reshard: bool = False) -> Checkpoint | None:
        """Return the newest good checkpoint, the same step on every rank; None: start from the beginning.

        Args:
            reshard: Also accept a checkpoint of another number of ranks; the caller redistributes it (Checkpoint.shards).

        Raises:
            OtherWorldSize: Another number of ranks wrote it, and `reshard` is False.
            Unavailable, NotYours: The folder cannot be read, or belongs to another user.
        """
        found = self._restore_as_rank_0_did() if self.world.rank else self._restore_first(reshard)
        self._resumed = found.step if found else 0
        self._program.measured["resumed"] = self._resumed
        if found:
            self._program.committed(found.step, found.time)
        else:
            self._program.publish()
        return found

    def save(self, step: int, state: Mapping[str, Any], wait: bool = True) -> Path:
        """Commit this rank's `state` as part of `step`; all ranks call it with the same step.

        A rank that restores gets its own names and, for names that it did not save, those of rank 0.

        Args:
            step: Number of the training step, from 0.
            state: Values by name: bytes-like (restored as bytes), iterators of bytes-like, or JSON (tuples become lists).
            wait: True: return when the whole checkpoint is committed. False: return when `state` is copied; a thread writes it.
                One save is written and one may wait; the next call waits for these. The copy's memory is reused.

        Returns:
            The folder of the checkpoint.

        Raises:
            SaveFailed: It could not be written. A failure with wait=False is raised by the next save with wait=False, which is
                then not made, or by `flush`; a later successful save with wait=True only logs it.
            TypeError: A value is none of these.
        """
        if not wait:
            self._async_saves.wait_for_slot(at_once=self.world.size == 1)
            copy = self._snapshots.take(state)
            self._async_saves.submit(lambda: self._save_copy(step, copy))
            return self.store.path(step)
        failure = self._async_saves.settle()
        self._save(step, state)
        if failure:
            log_line(f"{failure}; step {step} is saved")
        return self.store.path(step)

    def flush(self) -> None:
        """Wait until all saves with wait=False are committed.

        Raises:
            SaveFailed: The newest failure.
        """
        if failure := self._async_saves.settle():
            raise failure

    def should_stop(self, step: int) -> bool:
        """Return whether to save at `step` and leave. It costs a comparison, and one file access every half second.

        Args:
            step: The step that was trained last. All ranks pass the same sequence.
        """
        self._program.at = step
        self._program.started()
        if not self._stopping:
            self._stopping = self._agreement.stops_at(step, self._stop_requested())
        return self._stopping

    def report(
        self, step: int, total_steps: int | None = None, loss: float | None = None, samples: int | None = None
    ) -> None:
        """Report the progress of the training, from which the controller computes the time left. Call it at every step.

        Rank 0 writes one small file a second at most; all other calls cost a comparison of the clock. Nothing is written outside
        of a managed job. The report is a claim: a job that runs longer than it claims is ranked by its age again.

        Args:
            step: Number of the steps that are done, of all runs together; it never falls within a run.
            total_steps: Number of the steps of the whole job; None: not known.
            loss: The newest loss.
            samples: Number of the samples that were trained on.
        """
        if time.monotonic() >= self._progress.next_at:
            self._progress.write(step, total_steps, loss, samples)

    def register_alone(self) -> None:
        """State that this one process registers for the whole job, whatever the number of its tasks and GPUs.

        For a single process that uses all GPUs of the job, or that starts the ranks. Of an elastic job, the controller otherwise
        expects one rank for each task or GPU.
        """
        self._program.measured["alone"] = True
        self._program.publish()

    def converges(
        self, loss: float | None = None, threshold: float = 0.01, epoch_steps: float = 0.0, epochs: int = 3
    ) -> None:
        """State when the training ends, where its number of steps is not known. Call it once, before the first report.

        The controller then predicts the steps that are left from the reported losses. Where both are stated the loss counts. It is
        a claim, as a report is.

        Args:
            loss: The training ends when its loss has fallen to this value.
            threshold: It ends when the loss falls by less than this part of its maximum in an epoch, above 0 and below 1.
            epoch_steps: Steps of an epoch, 1 or more.
            epochs: In so many epochs one after the other, 1 to 1000.

        Raises:
            ValueError: There is neither a loss nor an epoch, or a value is impossible.
        """
        stated = Convergence(loss, threshold, epoch_steps, epochs)
        if convergence.read(stated.stated()) is None:
            raise ValueError(
                f"{stated}: state a loss of 0 or more, or a threshold between 0 and 1 and the steps of an epoch"
            )
        self._progress.until = stated

    def exchange(self) -> contextlib.AbstractContextManager[None]:
        """Mark the part of a step in which this rank exchanges gradients with the others and waits for them.

        With synchronous training the steps of all ranks take equally long. So the ranks report how long a step takes without this
        part, and the controller finds those that all others wait for (`tiresias explain`). The adapters measure it by themselves; a
        loop of one's own uses it in each step of each rank::

            with checkpointer.exchange():
                torch.distributed.all_reduce(gradients)
        """
        return self._program.work.exchange()

    def waited(self, seconds: float) -> None:
        """Count a time for which this rank has waited for the others, where `exchange` cannot enclose it.

        Args:
            seconds: The time, seconds.
        """
        self._program.work.waited += seconds

    def report_every(self, seconds: float) -> None:
        """Set the time between two reports that are written, at least; 1 s without it.

        For programs whose time is scaled, as those of a replay. A rank reports its own work in 60 times as long.

        Args:
            seconds: The time, seconds.
        """
        self._progress.interval, self._program.work.interval = seconds, rank_files.WORK_S * seconds

    def steps(self, total: int) -> Iterator[int]:
        """Return the steps from the restored one up to `total`, for a plain loop, and report each of them when it is done.

        A training loop::

            for step in checkpointer.steps(total):
                train_one_more(...)
                if checkpointer.should_stop(step + 1):
                    ...

        Args:
            total: Number of the steps of the whole job. The first step is 0, or the number of the restored checkpoint.
        """
        for step in range(self._resumed, total):
            yield step
            self.report(step + 1, total)

    def batch(self, global_batch: int, most: int = 0) -> LocalBatch:
        """Return this rank's share in each step's batch, which has the same size on any number of ranks.

        Args:
            global_batch: Samples of a step on all ranks together.
            most: Samples that fit into one pass on one rank; 0: any number.

        Raises:
            UsageError: The ranks cannot have equal shares.
        """
        return local_batch(global_batch, self.world.size, most)

    def exit_for_requeue(self) -> NoReturn:
        """Report to the supervisor that all is saved, and exit with code 99. Raises as `flush`."""
        self.flush()
        self._program.leave()
        sys.exit(control.EXIT_REQUEUE)

    def _save(self, step: int, state: Mapping[str, Any]) -> None:
        self._program.refuse_if_superseded()
        began = time.monotonic()
        self.store.save(step, state, self.world)
        self._program.measured["save"] = round(time.monotonic() - began, 3)
        self._program.at = max(self._program.at, step)
        self._program.committed(step, time.time())

    def _save_copy(self, step: int, copy: Mapping[str, Any]) -> None:
        try:
            self._save(step, copy)
        except TiresiasError as error:
            log_line(str(error))  # now: the call that raises it may follow much later
            raise
        finally:
            self._snapshots.release(copy)

    def _restore_first(self, reshard: bool) -> Checkpoint | None:
        try:
            found = self.store.restore(world_size=None if reshard else self.world.size)
        except TiresiasError as error:
            self._launch.publish(-1, str(error))
            raise
        self._launch.publish(found.step if found else -1)
        log_line(
            f"run {self._restart} " + (f"resumes from step {found.step}" if found else "starts from the beginning")
        )
        return found

    def _restore_as_rank_0_did(self) -> Checkpoint | None:
        step = self._launch.published(self.store.wait)
        return self.store.load(step, self.world.rank) if step >= 0 else None

    # stop requests

    def _flag(self) -> None:
        self._requested = True

    def _stop_requested(self) -> bool:
        if self._requested:
            if self.world.rank:
                self._request_from_rank_0()
            return True
        now = time.monotonic()
        if self._program.folder and now - self._polled_at >= POLL_S:
            self._polled_at = now
            with contextlib.suppress(OSError):
                if files.is_there(self._stop_file) and not self._program.is_displaced():
                    self._requested = True  # and never False: a signal may have set it during the poll
            self._program.publish_progress()
        return self._requested

    def _request_from_rank_0(self) -> None:
        with contextlib.suppress(OSError):
            self._stop_file.touch()

    @property
    def _stop_file(self) -> Path:
        return control.stop_file(self._program.folder or self._home, self._restart)
