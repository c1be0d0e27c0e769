"""What a training program uses: restore, train until told to stop, save, leave.

    checkpointer = Checkpointer.from_env()
    found = checkpointer.restore()
    step = found.step if found else 0
    while step < steps:
        step = train_one_more(...)
        if checkpointer.should_stop(step):
            checkpointer.save(step, {"weights": weights, "rng": rng_state})
            checkpointer.exit_for_requeue()

The checkpoint signal (TIRESIAS_SIGNAL, default USR2) and SIGTERM only set a flag. The same program runs outside of Slurm: it then
stops for these signals only. All ranks call each method, with the same steps.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from tiresias.checkpoint import control, files, shard
from tiresias.checkpoint.agreement import LOOK, Agreement
from tiresias.checkpoint.notes import say
from tiresias.checkpoint.store import KEEP, Checkpoint, Store
from tiresias.checkpoint.world import World, start_ticks
from tiresias.errors import TiresiasError, UsageError

DEFAULT_SIGNAL = "USR2"
PROGRESS = 10.0  # seconds between two words on the step reached, from which the next run knows how much it does again


class Checkpointer:
    """folder: where the checkpoints are. control: the job's control folder (control.py), None: only signals tell it to stop.

    restart: Slurm's restart count of this run. keep: committed checkpoints that stay, at least 2. Make it in the main thread:
    signal handlers that were there before are called after ours.
    """

    def __init__(
        self, folder: Path | str, *, control: Path | None = None, restart: int = 0, signal_name: str = DEFAULT_SIGNAL,
        world: World | None = None, keep: int = KEEP,
    ) -> None:  # fmt: skip
        self.world = world or World.from_env()
        self.store = Store(Path(folder), keep)
        self._control, self._restart = control, restart
        self._wanted = self._stopping = self._ready = False
        self._looked = -LOOK
        self._step = self._at = -1  # of the newest commit, of the newest call
        self._measured: dict[str, float] = {}  # control.py describes it
        self._told_at = 0.0
        _on_signals((_signal_number(signal_name), signal.SIGTERM), self._flag)
        self._register()
        self._agreement = Agreement(self._agreement_folder(), self.world) if self.world.size > 1 else None

    @classmethod
    def from_env(
        cls, folder: Path | str | None = None, keep: int = KEEP, env: Mapping[str, str] = os.environ
    ) -> Checkpointer:
        """As the job's supervisor set it up; outside of a job of ours the checkpoints are in `folder`, or in ./checkpoints.

        A `folder` given wins over the job's own one.
        """
        ours = env.get("TIRESIAS_CONTROL", "") and _is_this_job(env)
        home = folder or (env.get("TIRESIAS_CHECKPOINT_DIR") if ours else None) or "checkpoints"
        restart = env.get("TIRESIAS_RESTART", "0")
        return cls(
            home,
            control=Path(env["TIRESIAS_CONTROL"]) if ours else None,
            restart=int(restart) if re.fullmatch("[0-9]{1,9}", restart) else 0,
            signal_name=env.get("TIRESIAS_SIGNAL") or DEFAULT_SIGNAL,
            world=World.from_env(env),
            keep=keep,
        )

    def restore(self) -> Checkpoint | None:
        """The newest good checkpoint, the same step on every rank; None: start from the beginning. Raises as Store.restore."""
        found = self.store.restore() if self.world.rank == 0 else self._restore_as_rank_0_did()
        if self.world.rank == 0:
            self._publish_restored(found)
            say(
                f"run {self._restart} resumes from step {found.step}"
                if found
                else f"run {self._restart} starts from the beginning"
            )
        self._measured["resumed"] = found.step if found else 0
        self._committed(found.step if found else -1)
        return found

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """Commit this rank's `state` as part of `step`; returns when the whole checkpoint is committed. See Store.save.

        Values: bytes-like (given back as bytes), iterators of bytes-like, or JSON (given back as json does: tuples become lists).
        A rank that restores gets its own names and, for names that it did not save, those of rank 0.
        """
        self._refuse_if_superseded()
        began = time.monotonic()
        path = self.store.save(step, state, self.world)
        self._at, self._measured["save"] = max(self._at, step), round(time.monotonic() - began, 3)
        self._committed(step)
        return path

    def should_stop(self, step: int) -> bool:
        """Whether to save at `step` and leave. Costs a comparison; every half second also a look at the stop file."""
        self._at = step
        if not self._ready:
            self._ready, self._measured["ready_at"] = True, time.time()
            self._report()
        if not self._stopping:
            wanted = self._told()
            self._stopping = self._agreement.stops_at(step, wanted) if self._agreement else wanted
        return self._stopping

    def exit_for_requeue(self) -> NoReturn:
        """Tell the supervisor that all is saved, and exit with code 99."""
        self._report(requeue=True)
        self._unregister(os.getpid())
        sys.exit(control.EXIT_REQUEUE)

    # being told

    def _flag(self) -> None:
        self._wanted = True

    def _told(self) -> bool:
        if self._wanted:
            if self.world.rank:
                self._tell_rank_0()
            return True
        now = time.monotonic()
        if self._control and now - self._looked >= LOOK:
            self._looked = now
            self._wanted = self._stop_file.exists()
            if now - self._told_at >= PROGRESS:
                self._report()
        return self._wanted

    def _tell_rank_0(self) -> None:
        with contextlib.suppress(OSError):
            self._stop_file.touch()

    @property
    def _stop_file(self) -> Path:
        return control.stop_file(self._control or self._agreement_folder(), self._restart)

    # speaking with the supervisor, the daemon and the other ranks

    def _register(self) -> None:
        if self._control is None:
            return
        try:
            self._rank_file.parent.mkdir(exist_ok=True)
            content = {"rank": self.world.rank, "restart": self._restart}
            control.write(self._rank_file.parent, self._rank_file.name, content)
            atexit.register(self._unregister, os.getpid())
        except OSError as error:
            say(f"{self._control}: {error.strerror}: this program cannot be told to save")
            self._control = None
        self._report()

    @property
    def _rank_file(self) -> Path:
        name = f"{os.uname().nodename}-{os.getpid()}-{start_ticks(os.getpid())}"
        return (self._control or self.store.root) / control.RANKS / name

    def _unregister(self, pid: int) -> None:
        """A program that has ended is not waited for. Not in a forked worker, whose file it is not."""
        if pid == os.getpid():
            with contextlib.suppress(OSError):
                self._rank_file.unlink()

    def _report(self, requeue: bool = False) -> None:
        if self._control is None or self.world.rank:
            return
        self._told_at = time.monotonic()
        content = {
            "restart": self._restart, "ready": self._ready, "step": self._step, "requeue": requeue,
            "folder": str(self.store.root.absolute()), "at": self._at, **self._measured,
        }  # fmt: skip
        try:
            control.write(self._control, control.PROGRAM, content)
        except OSError as error:
            say(f"{self._control}: {error.strerror}: the daemon does not hear of this program")

    def _committed(self, step: int) -> None:
        self._step = step
        self._report()

    def _refuse_if_superseded(self) -> None:
        """A node that Slurm gave up may still run an old rank while the job runs again elsewhere."""
        if self._control is None:
            return
        newer = control.integer(control.read(self._control / control.SUPERVISOR, os.getuid()).get("restart"))
        if newer > self._restart:
            raise TiresiasError(
                f"this is run {self._restart} and run {newer} of the job has begun: nothing is saved from here"
            )

    def _agreement_folder(self) -> Path:
        return (self._control or self.store.root) / f".agreement-.{self.world.launch}"

    def _publish_restored(self, found: Checkpoint | None) -> None:
        if self.world.size > 1:
            with files.open_folder(self._agreement_folder()) as folder:
                shard.write_synced(folder, "restored", str(found.step if found else -1).encode())

    def _restore_as_rank_0_did(self) -> Checkpoint | None:
        path = self._agreement_folder() / "restored"
        self.store.wait(lambda: path.exists() or None, "rank 0's restore")
        step = int(path.read_text(encoding="ascii"))
        return self.store.load(step, self.world.rank) if step >= 0 else None


def _is_this_job(env: Mapping[str, str]) -> bool:
    """False where the variables came along from another job's environment, as in a job submitted from within a job."""
    ours = env.get("SLURM_JOB_ID")
    if env.get("SLURM_ARRAY_JOB_ID"):
        ours = f"{env['SLURM_ARRAY_JOB_ID']}_{env.get('SLURM_ARRAY_TASK_ID')}"
    return ours is None or Path(env["TIRESIAS_CONTROL"]).name == ours


def _signal_number(name: str) -> signal.Signals:
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise UsageError(f"TIRESIAS_SIGNAL={name!r:.40}: not a signal; use a name such as USR2") from None


def _on_signals(numbers: tuple[signal.Signals, ...], flag: Callable[[], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise TiresiasError("make the Checkpointer in the main thread: only there can signals be handled")
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        signal.signal(number, _chained(flag, handler))
    os.register_at_fork(after_in_child=lambda: _in_worker(before))


def _in_worker(before: Mapping[signal.Signals, Any]) -> None:
    """A forked worker (a data loader's, a pool's) dies of SIGTERM as ever, and the checkpoint signal is not for it."""
    for number, handler in before.items():
        if handler is not None:
            signal.signal(number, handler if number == signal.SIGTERM or handler != signal.SIG_DFL else signal.SIG_IGN)


def _chained(flag: Callable[[], None], before: Any) -> Callable[[int, FrameType | None], None]:
    def handler(number: int, frame: FrameType | None) -> None:
        flag()
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)

    return handler
