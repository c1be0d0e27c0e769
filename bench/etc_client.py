"""A client of redis with the ETC mix of Facebook's caches (Atikoglu et al., SIGMETRICS 2012).

Requests are 30 GET for each SET; keys are Zipf distributed; values have the sizes of ETC (a generalized Pareto distribution with
scale 214.476 and shape 0.348238 bytes). Requests are sent in batches of 32.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

GETS_PER_SET = 30
ZIPF = 0.99
SCALE, SHAPE, MOST_BYTES = 214.476, 0.348238, 8192
BATCH = 32
VALUE = b"v" * MOST_BYTES


class EtcClient:
    """One connection.

    Args:
        path: The socket of the server.
        keys: How many keys there are.
    """

    def __init__(self, path: str, keys: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(120)
        self._socket.connect(path)
        self._answers = self._socket.makefile("rb")
        self._random, self._keys = np.random.default_rng(1), keys
        self._shares = np.cumsum(1 / np.arange(1, keys + 1) ** ZIPF)
        self._order = self._random.permutation(keys)  # hot keys lie anywhere in memory

    def fill(self) -> None:
        """Set all keys."""
        for first in range(0, self._keys, 1000):
            self._exchange(list(self._sets(np.arange(first, min(first + 1000, self._keys)))))

    def warm_up(self, most_s: float) -> None:
        """Send as many requests as there are keys, or for some time: the hot keys are in memory then."""
        deadline = time.monotonic() + most_s
        for _ in range(0, self._keys, BATCH):
            if time.monotonic() >= deadline:
                return
            self._exchange(self._batch())

    def operations_per_s(self, seconds: float) -> dict[str, float]:
        """Send requests for some time; return requests per second and the 99th percentile of a batch, in us."""
        times, start = [], time.monotonic()
        while time.monotonic() - start < seconds:
            batch = self._batch()
            begun = time.perf_counter()
            self._exchange(batch)
            times.append(time.perf_counter() - begun)
        taken = time.monotonic() - start
        p99 = sorted(times)[len(times) * 99 // 100] * 1e6
        return {"operations_per_s": round(len(times) * BATCH / taken, 1), "batch_p99_us": round(p99, 1)}

    def close(self) -> None:
        """End the connection."""
        self._answers.close()
        self._socket.close()

    def _batch(self) -> list[bytes]:
        return [self._request() for _ in range(BATCH)]

    def _request(self) -> bytes:
        rank = np.searchsorted(self._shares, self._random.random() * self._shares[-1])
        key = self._order[rank]
        if self._random.integers(GETS_PER_SET + 1):
            return _packed(b"GET", b"key:%027d" % key)
        return next(self._sets([key]))

    def _sets(self, keys: Any) -> Iterator[bytes]:
        shares = self._random.random(len(keys))
        sizes = np.clip(SCALE / SHAPE * ((1 - shares) ** -SHAPE - 1), 1, MOST_BYTES).astype(int)
        for key, size in zip(keys, sizes, strict=True):
            yield _packed(b"SET", b"key:%027d" % key, VALUE[:size])

    def _exchange(self, requests: list[bytes]) -> None:
        self._socket.sendall(b"".join(requests))
        for _ in requests:
            if not (line := self._answers.readline()):
                raise ConnectionResetError("redis has ended")
            if line.startswith(b"$") and (size := int(line[1:])) >= 0:
                self._answers.read(size + 2)
            elif not line.startswith((b"+", b"$")):
                raise SystemExit(f"redis: {line!r}")


def _packed(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
