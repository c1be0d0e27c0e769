"""The checkpoint signal and SIGTERM: they set a flag and nothing else, in this process and not in its forked workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tiresias.errors import TiresiasError, UsageError

DEFAULT = "USR2"


def number(name: str) -> signal.Signals:
    """Raises UsageError."""
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise UsageError(f"TIRESIAS_SIGNAL={name!r:.40}: not a signal; use a name such as USR2") from None


def on(numbers: Sequence[signal.Signals], flag: Callable[[], None]) -> None:
    """Call `flag` for each of `numbers`, then the handler that was there before. Raises TiresiasError outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        raise TiresiasError("make the Checkpointer in the main thread: only there can signals be handled")
    before = {number: signal.getsignal(number) for number in numbers}
    for each, handler in before.items():
        signal.signal(each, _Flagging(flag, handler))
    os.register_at_fork(after_in_child=lambda: _in_worker(before))


@dataclass(frozen=True, slots=True)
class _Flagging:
    """A handler that calls the one before it, too."""

    flag: Callable[[], None]
    before: Any

    def __call__(self, received: int, frame: FrameType | None) -> None:
        self.flag()
        if callable(self.before) and self.before is not signal.default_int_handler:
            self.before(received, frame)


def _in_worker(before: Mapping[signal.Signals, Any]) -> None:
    """A forked worker (a data loader's, a pool's) dies of SIGTERM as ever, and the checkpoint signal is not for it."""
    for each, handler in before.items():
        handler = _unmanaged(handler)
        if handler is not None:
            signal.signal(each, handler if each == signal.SIGTERM or handler != signal.SIG_DFL else signal.SIG_IGN)


def _unmanaged(handler: Any) -> Any:
    """What was there before the first Checkpointer of this process: there may be several, one after the other."""
    while isinstance(handler, _Flagging):
        handler = handler.before
    return handler
