"""A training program for test_signals.py: python signal_program.py FOLDER STEPS. It prints where it is, and waits for input.

Each word on standard output is a moment: made, restoring, step <n>, saving, saved, done; a line on standard input lets it go on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tiresias.checkpoint import Checkpointer


def moment(words: str) -> None:
    print(words, flush=True)
    sys.stdin.readline()


def slow(text: bytes) -> Iterator[bytes]:
    """A buffer that is written in two pieces, with a moment between them."""
    yield text[:3]
    moment("saving")
    yield text[3:]


def read(chunks: object) -> bytes:
    moment("restoring")
    return bytes(chunks)  # type: ignore[call-overload, no-any-return]


def main() -> None:
    checkpointer = Checkpointer.from_env(sys.argv[1])
    moment("made")
    found = checkpointer.restore()
    step = found.step if found else 0
    text = read(found.state.view("text")) if found else b"......"
    assert text == b"%06d" % step or not found
    while step < int(sys.argv[2]):
        step += 1
        moment(f"step {step}")
        if checkpointer.should_stop(step):
            checkpointer.save(step, {"text": slow(b"%06d" % step)})
            moment("saved")
            checkpointer.exit_for_requeue()
    moment("done")


if __name__ == "__main__":
    main()
