"""transfers FOLDER MIB: files and sockets that write and read an array larger than what is resident."""

import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

FOLDER, SIZE = Path(sys.argv[1]), int(sys.argv[2]) << 20
SENT = np.frombuffer(np.random.default_rng(5).bytes(SIZE), "uint8").copy()
GOT = np.zeros(SIZE, "uint8")


def same(found: object) -> None:
    assert np.array_equal(np.frombuffer(found, "uint8"), SENT)  # type: ignore[call-overload]


def files() -> None:
    with (FOLDER / "raw").open("wb", buffering=0) as file:
        assert file.write(SENT) == SIZE
    same((FOLDER / "raw").read_bytes())
    with (FOLDER / "raw").open("rb", buffering=0) as file:
        assert file.readinto(GOT.data) == SIZE
    same(GOT)
    SENT.tofile(FOLDER / "stream")
    same(np.fromfile(FOLDER / "stream", "uint8"))
    np.save(FOLDER / "array.npy", SENT)
    same(np.load(FOLDER / "array.npy"))


def vectors(flags: int) -> None:
    done, file = 0, os.open(FOLDER / "vectors", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    while done < SIZE:
        half = done + (SIZE - done) // 2
        done += os.writev(file, [SENT[done:half], b"", SENT[half:]])
    os.close(file)
    file, done = os.open(FOLDER / "vectors", os.O_RDONLY | flags), 0
    GOT[:] = 0
    while done < SIZE:
        done += os.preadv(file, [GOT.data[done:]], done)
    os.close(file)
    same(GOT)


def sockets(send: Callable[[socket.socket], object], receive: Callable[[socket.socket, int], int]) -> None:
    one, other = socket.socketpair()
    thread = threading.Thread(target=send, args=(one,))
    thread.start()
    GOT[:] = 0
    done = 0
    while done < SIZE:
        done += receive(other, done)
    thread.join()
    same(GOT)


def send_messages(one: socket.socket) -> None:
    done = 0
    while done < SIZE:
        done += one.sendmsg([SENT.data[done:]])


files()
vectors(0)
vectors(os.O_DIRECT)
sockets(lambda one: one.sendall(SENT), lambda other, at: other.recv_into(GOT.data[at:]))
sockets(lambda one: one.sendall(SENT), lambda other, at: other.recv_into(GOT.data, SIZE, socket.MSG_WAITALL))
sockets(send_messages, lambda other, at: other.recvmsg_into([GOT.data[at:]])[0])
assert len(set(os.urandom(2 << 20))) == 256
print("same")
