"""Calls that wait for another program, made in a thread beside a loop that never waits.

A sequence of calls is a generator: it yields each call, and continues in the loop's thread with what the call returned or raised.
So the decisions and the journal stay in one thread, whatever time Slurm or an aggregator takes to answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from tiresias.errors import TiresiasError

Call = Callable[[], Any]
CallSequence = Generator[Call, Any, Any]
_Outcome = tuple[Any, BaseException | None]


class BackgroundCalls:
    """One sequence of calls at a time. All methods belong to the loop's thread.

    Args:
        name: Of the thread.
        in_loop: Runs something in the loop's thread: ServerLoop.call.
    """

    def __init__(self, name: str, in_loop: Callable[[Callable[[], None]], None]) -> None:
        self._in_loop = in_loop
        self._sequence: CallSequence | None = None
        self._ended: Callable[[TiresiasError | None], None] = lambda error: None
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether a sequence is in progress."""
        return self._sequence is not None

    def begin(self, sequence: CallSequence, ended: Callable[[TiresiasError | None], None] = lambda error: None) -> None:
        """Begin a sequence; none is in progress.

        Args:
            sequence: The calls.
            ended: Called in the loop's thread at its end, with its TiresiasError or None.
        """
        assert not self.busy
        self._sequence, self._ended = sequence, ended
        self._advance(lambda: next(sequence))

    def finish(self, wait_s: float) -> None:
        """Take over the result of the call that is in progress, if it comes in time, and begin no other one. The loop has ended."""
        if self._sequence is None:
            return
        with suppress(queue.Empty, StopIteration, TiresiasError):
            self._continue(*self._outcomes.get(timeout=wait_s))
        self._sequence.close()
        self._sequence = None

    def _serve(self) -> None:
        while True:
            call = self._calls.get()
            try:
                self._outcomes.put((call(), None))
            except BaseException as error:
                self._outcomes.put((None, error))
            self._in_loop(self._resume)

    def _resume(self) -> None:
        with suppress(queue.Empty):
            outcome = self._outcomes.get_nowait()
            self._advance(lambda: self._continue(*outcome))

    def _continue(self, found: Any, error: BaseException | None) -> Call:
        assert self._sequence is not None
        return self._sequence.send(found) if error is None else self._sequence.throw(error)

    def _advance(self, to_next: Callable[[], Call]) -> None:
        try:
            self._calls.put(to_next())
        except StopIteration:
            self._end(None)
        except TiresiasError as error:
            self._end(error)

    def _end(self, error: TiresiasError | None) -> None:
        self._sequence = None
        self._ended(error)


def made_here(sequence: CallSequence) -> Any:
    """Make the calls of a sequence in this thread, and return its result. Raises what it raises."""
    try:
        call = next(sequence)
        while True:
            try:
                found = call()
            except TiresiasError as error:
                call = sequence.throw(error)
            else:
                call = sequence.send(found)
    except StopIteration as stop:
        return stop.value
