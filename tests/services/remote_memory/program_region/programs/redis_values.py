"""redis_values SOCKET: set, read and delete random values; what is read is what was set.

A background save in a child, which does not have the region, fails and changes nothing.
"""

import random
import socket
import sys
import time

RANDOM = random.Random(1)
CONNECTION = socket.socket(socket.AF_UNIX)
CONNECTION.connect(sys.argv[1])
STREAM = CONNECTION.makefile("rwb")


def ask(*words: bytes) -> bytes | None:
    STREAM.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
    STREAM.flush()
    line = STREAM.readline()
    if not line.startswith(b"$"):
        return line.strip()
    size = int(line[1:])
    return None if size < 0 else STREAM.read(size + 2)[:-2]


values = {b"key%d" % number: RANDOM.randbytes(RANDOM.randrange(100, 20_000)) for number in range(2500)}
for key, value in values.items():
    assert ask(b"SET", key, value) == b"+OK"
for key in RANDOM.sample(sorted(values), 800):
    assert ask(b"DEL", key) == b":1"
    del values[key]
    assert ask(b"GET", key) is None
for key, value in values.items():
    assert ask(b"GET", key) == value
assert ask(b"BGSAVE") == b"+Background saving started"
DEADLINE = time.monotonic() + 60
while b"rdb_bgsave_in_progress:1" in (ask(b"INFO", b"persistence") or b""):
    assert time.monotonic() < DEADLINE
    time.sleep(0.1)
assert b"rdb_last_bgsave_status:err" in (ask(b"INFO", b"persistence") or b"")
for key, value in values.items():
    assert ask(b"GET", key) == value
print("same")
