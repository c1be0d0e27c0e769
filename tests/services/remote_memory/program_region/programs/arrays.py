"""Arrays of 8 MiB and what is computed of them; prints a hash. Argument: what happens in the middle."""

import hashlib
import os
import signal
import sys
from pathlib import Path

import numpy as np

WHAT = sys.argv[1] if len(sys.argv) > 1 else ""


def handler() -> int:
    """Return the process that resolves this one's page faults."""
    return max(int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _is_handler(each))


def _is_handler(process: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return (
        any(word.endswith(b"program_handler") for word in words) and os.environ["TIRESIAS_REMEM_FILE"].encode() in words
    )


one = np.zeros((1024, 1024))
assert not one.any()
one[:] = np.random.default_rng(1).random(one.shape)
if WHAT == "wait":
    print("half", flush=True)
    sys.stdin.readline()
elif WHAT == "kill handler":
    os.kill(handler(), signal.SIGKILL)
elif WHAT == "terminate handler":
    os.kill(handler(), signal.SIGTERM)
elif WHAT == "kill program":
    print(handler(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
for _ in range(40 if WHAT == "passes" else 0):
    np.negative(one, out=one)
two = np.sqrt(one) * 2.0
one += two
del two
three = np.zeros((512, 2048))
assert not three.any()
three[:] = one.reshape(three.shape)
print(hashlib.sha256(one.data).hexdigest(), hashlib.sha256((three - 0.5).data).hexdigest())
