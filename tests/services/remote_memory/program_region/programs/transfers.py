"""transfers FOLDER MIB: files and sockets that write and read an array larger than what is resident."""

import ctypes
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER, SIZE = Path(sys.argv[1]), int(sys.argv[2]) << 20
SENT = np.frombuffer(np.random.default_rng(5).bytes(SIZE), "uint8").copy()
GOT = np.zeros(SIZE, "uint8")
DATAGRAM, MESSAGES, MSG_WAITFORONE = 1 << 14, 8, 0x10000


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


class Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("parts", ctypes.POINTER(Part)),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("_", ctypes.c_int),
        ("length", ctypes.c_uint),
    )


def messages(array: Any, at: int, plain: Any) -> Any:
    """Return MESSAGES messages, of two parts of the array and, between them, one that is not in the region."""
    found, base = (Message * MESSAGES)(), array.ctypes.data
    for number in range(MESSAGES):
        first = base + at + number * DATAGRAM
        parts = (Part * 3)(Part(first, 100), Part(ctypes.addressof(plain), 7), Part(first + 100, DATAGRAM - 100))
        found[number].parts, found[number].count = parts, 3
    return found


def many_messages() -> None:
    """sendmmsg and recvmmsg; a receive of more messages than there are returns those."""
    one, other = socket.socketpair(type=socket.SOCK_DGRAM)
    sent, got, libc = ctypes.create_string_buffer(b"between"), ctypes.create_string_buffer(7), ctypes.CDLL(None)
    GOT[:] = 0
    for at in range(0, SIZE, DATAGRAM * MESSAGES):
        assert libc.sendmmsg(one.fileno(), messages(SENT, at, sent), MESSAGES, 0) == MESSAGES
        found = messages(GOT, at, got)
        assert libc.recvmmsg(other.fileno(), found, MESSAGES // 2, 0, None) == MESSAGES // 2
        rest = ctypes.byref(found, ctypes.sizeof(Message) * (MESSAGES // 2))
        assert libc.recvmmsg(other.fileno(), rest, MESSAGES // 2, MSG_WAITFORONE, None) == MESSAGES // 2
        assert [message.length for message in found] == [DATAGRAM + 7] * MESSAGES
        assert got.raw == b"between"
    same(GOT)
    assert libc.recvmmsg(other.fileno(), found, MESSAGES, socket.MSG_DONTWAIT, None) == -1


files()
vectors(0)
vectors(os.O_DIRECT)
sockets(lambda one: one.sendall(SENT), lambda other, at: other.recv_into(GOT.data[at:]))
sockets(lambda one: one.sendall(SENT), lambda other, at: other.recv_into(GOT.data, SIZE, socket.MSG_WAITALL))
sockets(send_messages, lambda other, at: other.recvmsg_into([GOT.data[at:]])[0])
many_messages()
assert len(set(os.urandom(2 << 20))) == 256
print("same")
