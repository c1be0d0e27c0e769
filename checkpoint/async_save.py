"""Asynchronous saves: a thread writes them in order, one at a time, while the training continues; one more may wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

WAITING = 1


class AsyncSaves:
    """A queue of saves for one thread. The interpreter's end waits for the submitted ones."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._saves: deque[Future[None]] = deque()

    def wait_for_slot(self, at_once: bool) -> None:
        """Return when a save may be submitted. Raises what the oldest save raised that has ended.

        Args:
            at_once: Also check saves that need no wait. Several ranks only check what each must wait for: the same save on
                all of them, whichever disk is the quickest.
        """
        while self._saves and (len(self._saves) > WAITING or (at_once and self._saves[0].done())):
            self._saves.popleft().result()

    def submit(self, save: Callable[[], None]) -> None:
        """Queue a save."""
        from concurrent.futures import ThreadPoolExecutor  # here: it costs 10 ms, and most programs do without

        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="tiresias-save")
        self._saves.append(self._pool.submit(save))

    def settle(self) -> BaseException | None:
        """Wait for all saves; return what the newest failed one raised."""
        failure = None
        while self._saves:
            failure = self._saves.popleft().exception() or failure
        return failure
