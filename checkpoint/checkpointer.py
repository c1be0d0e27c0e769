"""What a training program uses: restore, train until told to stop, save, leave.

    checkpointer = Checkpointer.from_env()
    found = checkpointer.restore()
    step = found.step if found else 0
    while step < steps:
        step = train_one_more(...)
        if step % 1000 == 0:
            checkpointer.save(step, {"weights": weights, "rng": rng_state}, wait=False)
        if checkpointer.should_stop(step):
            checkpointer.save(step, {"weights": weights, "rng": rng_state})
            checkpointer.exit_for_requeue()

The checkpoint signal (TIRESIAS_SIGNAL, default USR2) and SIGTERM only set a flag. The same program runs outside of Slurm: it then
stops for these signals only. All ranks call each method, with the same steps.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from tiresias.checkpoint import signals
from tiresias.checkpoint.agreement import LOOK
from tiresias.checkpoint.async_save import AsyncSaves
from tiresias.checkpoint.program_report import Program
from tiresias.checkpoint.rank_group import Agrees, Alone, Launch
from tiresias.checkpoint.retention import KeepLast, Policy, policies_from_env
from tiresias.checkpoint.snapshot import Snapshots
from tiresias.checkpoint.state import Checkpoint
from tiresias.checkpoint.store import Store
from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError
from tiresias.protocol import control, files
from tiresias.protocol.job_log import log_line


class Checkpointer:
    """folder: where the checkpoints are. control: the job's control folder (control.py), None: only signals tell it to stop.

    restart: Slurm's restart count of this run. submission: by which the control folder is known. retention: which checkpoints
    stay (retention.py). Make it in the main thread: signal handlers that were there before are called after ours.
    """

    def __init__(
        self, folder: Path | str, *, control: Path | None = None, restart: int = 0, signal_name: str = signals.DEFAULT,
        world: World | None = None, retention: Iterable[Policy] = (KeepLast(),), submission: str = "",
    ) -> None:  # fmt: skip
        self.world = world or World.from_env()
        self._wanted = self._stopping = False
        self._looked, self._restart = -LOOK, restart
        signals.on((signals.number(signal_name), signal.SIGTERM), self._flag)
        self._program = Program(control, restart, self.world, Path(folder), submission)
        self._home = (self._program.folder or Path(folder)) / f".agreement-.{self.world.launch}"
        self._launch = Launch(self._home, self.world) if self.world.size > 1 else Alone()
        self._agreement: Agrees = self._launch
        self.store = Store(Path(folder), retention, self._launch.dead)
        self._async_saves, self._snapshots = AsyncSaves(), Snapshots()

    @classmethod
    def from_env(
        cls, folder: Path | str | None = None, retention: Iterable[Policy] | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> Checkpointer:  # fmt: skip
        """As the job's supervisor set it up; outside of a job of ours the checkpoints are in `folder`, or in ./checkpoints.

        What is given wins over the job's own folder, and over TIRESIAS_KEEP and its like (retention.py).
        """
        ours = _is_this_jobs(env, "TIRESIAS_CONTROL")
        its_own = ours or _is_this_jobs(env, "TIRESIAS_CHECKPOINT_DIR")  # its control folder may be away
        home = folder or (env.get("TIRESIAS_CHECKPOINT_DIR") if its_own else None) or "checkpoints"
        restart = env.get("TIRESIAS_RESTART", "0")
        return cls(
            home,
            control=Path(env["TIRESIAS_CONTROL"]) if ours else None,
            restart=int(restart) if re.fullmatch("[0-9]{1,9}", restart) else 0,
            signal_name=env.get("TIRESIAS_SIGNAL") or signals.DEFAULT,
            world=World.from_env(env),
            retention=policies_from_env(env) if retention is None else retention,
            submission=env.get("TIRESIAS_SUBMISSION", ""),
        )

    def agree_by(self, agreement: Agrees) -> None:
        """Let the ranks agree by an adapter's all-reduce, not by files. On every rank, before the first should_stop."""
        self._agreement = agreement

    def restore(self, reshard: bool = False) -> Checkpoint | None:
        """The newest good checkpoint, the same step on every rank; None: start from the beginning. Raises as Store.restore.

        Written by another number of ranks it is refused, unless the caller can spread it (reshard=True): see Checkpoint.shards.
        """
        found = self._restore_as_rank_0_did() if self.world.rank else self._restore_first(reshard)
        self._program.measured["resumed"] = found.step if found else 0
        if found:
            self._program.committed(found.step, found.time)
        else:
            self._program.tell()
        return found

    def save(self, step: int, state: Mapping[str, Any], wait: bool = True) -> Path:
        """Commit this rank's `state` as part of `step`; returns when the whole checkpoint is committed. See Store.save.

        Values: bytes-like (given back as bytes), iterators of bytes-like, or JSON (given back as json does: tuples become lists).
        A rank that restores gets its own names and, for names that it did not save, those of rank 0.

        wait=False: return as soon as `state` is copied; a thread writes it. One is written and one may wait; while one waits,
        the next call waits too. The copy's memory is kept for the next one. What went wrong is raised as SaveFailed by a later
        save with wait=False or by `flush`, and the save that raises it is not made. A waiting save that succeeds only logs it: it
        has made good for it.
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
        """Return when all saves of wait=False are committed. Raises what went wrong with the newest that failed."""
        if failure := self._async_saves.settle():
            raise failure

    def should_stop(self, step: int) -> bool:
        """Whether to save at `step` and leave. Costs a comparison; every half second also a look at the stop file."""
        self._program.at = step
        self._program.started()
        if not self._stopping:
            self._stopping = self._agreement.stops_at(step, self._told())
        return self._stopping

    def exit_for_requeue(self) -> NoReturn:
        """Tell the supervisor that all is saved, and exit with code 99. Raises as `flush`."""
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
            log_line(str(error))  # at once: who raises it may come much later
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

    # being told

    def _flag(self) -> None:
        self._wanted = True

    def _told(self) -> bool:
        if self._wanted:
            if self.world.rank:
                self._tell_rank_0()
            return True
        now = time.monotonic()
        if self._program.folder and now - self._looked >= LOOK:
            self._looked = now
            with contextlib.suppress(OSError):
                self._wanted = files.is_there(self._stop_file) and not self._program.is_displaced()
            self._program.tell_progress()
        return self._wanted

    def _tell_rank_0(self) -> None:
        with contextlib.suppress(OSError):
            self._stop_file.touch()

    @property
    def _stop_file(self) -> Path:
        return control.stop_file(self._program.folder or self._home, self._restart)


def _is_this_jobs(env: Mapping[str, str], name: str) -> bool:
    """Whether the variable names a folder, and did not come along from another job, as in a job submitted from within a job."""
    job = env.get("SLURM_JOB_ID")
    if env.get("SLURM_ARRAY_JOB_ID"):
        job = f"{env['SLURM_ARRAY_JOB_ID']}_{env.get('SLURM_ARRAY_TASK_ID')}"
    folder = env.get(name, "")
    return bool(folder) and (job is None or Path(folder).name in (job, f"{job}-{os.getuid()}"))
