"""A real parameter server: processes, TCP sockets and numpy, with the tensors of a model of Table 6.

    python3 ps.py --model vgg16 --workers 4 --servers 2 --iterations 40 --truth FOLDER

starts the servers and the workers; worker N writes into N.json what really happened: seconds of each training iteration.
Tensors go round robin to the servers, as TensorFlow's; each is one message, scaled down by --scale. In between there may
be evaluations (nothing is sent), checkpoints (worker 0 fetches everything once more), and background traffic of random
size: a data loader and a log.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from tensors import tensors

FETCH, STEP, END = b"F", b"S", b"E"


def main() -> None:
    args = _parser().parse_args()
    if args.role == "server":
        Server(args).serve()
    elif args.role == "worker":
        Worker(args).train()
    elif args.role == "sink":
        sink(args)
    else:
        launch(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=("server", "worker", "sink"))
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--ports", type=int, nargs="*", default=[])
    parser.add_argument("--model", default="vgg16")
    parser.add_argument("--scale", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--compute", type=float, default=0.03, help="seconds")
    parser.add_argument("--evaluate-every", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=0)
    parser.add_argument("--background", action="store_true")
    parser.add_argument("--shuffle", action="store_true", help="tensors leave a worker in another order each time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--truth", type=Path)
    return parser


def parts(args: argparse.Namespace) -> list[list[int]]:
    """The elements of each tensor, server by server."""
    counts = [max(size // args.scale // 4, 1) for size in tensors(args.model)]
    return [counts[server :: args.servers] for server in range(args.servers)]


def receive(connection: socket.socket, buffer: memoryview) -> None:
    while len(buffer):
        got = connection.recv_into(buffer)
        if not got:
            raise EOFError
        buffer = buffer[got:]


def receive_word(connection: socket.socket, word: bytearray) -> bytearray:
    receive(connection, memoryview(word))
    return word


def raw(array: np.ndarray) -> memoryview:
    return array.data.cast("B")


class Server:
    """A thread a worker; an update when the gradients of all workers are there."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.values = [np.zeros(count, np.float32) for count in parts(args)[args.index]]
        self.barrier = threading.Barrier(args.workers)
        self.lock = threading.Lock()

    def serve(self) -> None:
        with listener(self.args) as listening:
            threads = [
                threading.Thread(target=self.attend, args=listening.accept()[:1]) for _ in range(self.args.workers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def attend(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gradients = [np.empty_like(value) for value in self.values]
        what = bytearray(1)
        while receive_word(connection, what) != END:
            if what == STEP:
                self.step(connection, gradients)
            for value in self.values:
                connection.sendall(raw(value))

    def step(self, connection: socket.socket, gradients: list[np.ndarray]) -> None:
        """Each tensor comes after its number."""
        number = np.empty(1, np.int32)
        for _ in gradients:
            receive(connection, raw(number))
            receive(connection, raw(gradients[int(number[0])]))
        with self.lock:
            for value, gradient in zip(self.values, gradients, strict=True):
                value += gradient
        self.barrier.wait()


class Worker:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.random = random.Random(args.seed * 100 + args.index)
        self.tensors = [[np.ones(count, np.float32) for count in part] for part in parts(args)]
        self.servers = [connect(port) for port in args.ports[: args.servers]]
        self.sink = connect(args.ports[-1]) if args.background else None
        self.seconds: list[float] = []

    def train(self) -> None:
        if self.sink:
            threading.Thread(target=self.load_data, args=(self.sink,), daemon=True).start()
        for step in range(1, self.args.iterations + 1):
            start = time.monotonic()
            self.iteration()
            self.seconds.append(time.monotonic() - start)
            self.in_between(step)
        for server in self.servers:
            server.sendall(END)
        if self.args.truth:
            (self.args.truth / f"{self.args.index}.json").write_text(json.dumps(self.seconds))

    def iteration(self) -> None:
        time.sleep(self.args.compute * self.random.uniform(0.95, 1.05))
        for server in self.servers:
            server.sendall(STEP)
        for index, number in self.order():
            self.servers[index].sendall(np.int32(number).tobytes())
            self.servers[index].sendall(raw(self.tensors[index][number]))
        self.fetch()

    def order(self) -> list[tuple[int, int]]:
        """The last layer's gradients are there first."""
        all_of_them = [(server, number) for server, part in enumerate(self.tensors) for number in range(len(part))]
        all_of_them.sort(key=lambda each: -(each[1] * self.args.servers + each[0]))
        if self.args.shuffle:
            self.random.shuffle(all_of_them)
        return all_of_them

    def fetch(self) -> None:
        for server, part in zip(self.servers, self.tensors, strict=True):
            for tensor in part:
                receive(server, raw(tensor))

    def in_between(self, step: int) -> None:
        if self.args.evaluate_every and step % self.args.evaluate_every == 0:
            time.sleep(self.args.compute * 8)
        if self.args.checkpoint_every and step % self.args.checkpoint_every == 0 and self.args.index == 0:
            for server in self.servers:
                server.sendall(FETCH)
            self.fetch()
            time.sleep(self.args.compute * 3)

    def load_data(self, sink: socket.socket) -> None:
        """Asks for batches of random size all the time."""
        while True:
            size = self.random.randrange(100, 200_000)
            sink.sendall(np.int32(size).tobytes() + bytes(3000))
            receive(sink, memoryview(bytearray(size)))
            time.sleep(self.random.expovariate(1 / 0.01))


def sink(args: argparse.Namespace) -> None:
    """Data loader and log in one: gives as many bytes as it is asked for."""

    def attend(connection: socket.socket) -> None:
        asked = bytearray(3004)
        with suppress(EOFError, OSError):  # until the worker goes
            while True:
                receive(connection, memoryview(asked))
                connection.sendall(bytes(int(np.frombuffer(asked[:4], np.int32)[0])))

    with listener(args) as listening:
        for _ in range(args.workers):
            threading.Thread(target=attend, args=listening.accept()[:1], daemon=True).start()
        sys.stdin.read()


def listener(args: argparse.Namespace) -> socket.socket:
    """Print its port for the process that started it."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listening.getsockname()[1], flush=True)
    return listening


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def launch(args: argparse.Namespace) -> None:
    started: list[subprocess.Popen[str]] = []
    try:
        ports = list(_start_servers(args, started))
        workers = [_start("worker", index, "--ports", *map(str, ports)) for index in range(args.workers)]
        started += workers
        if any(worker.wait() for worker in workers):
            raise SystemExit("a worker failed")
    finally:
        for process in started:
            process.kill()
            process.wait()


def _start_servers(args: argparse.Namespace, started: list[subprocess.Popen[str]]) -> Iterator[int]:
    for role, count in (("server", args.servers), ("sink", int(args.background))):
        for index in range(count):
            started.append(_start(role, index))
            assert started[-1].stdout
            yield int(started[-1].stdout.readline())


def _start(role: str, index: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *sys.argv[1:], "--role", role, "--index", str(index), *more]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=None if role == "worker" else subprocess.PIPE, text=True
    )


if __name__ == "__main__":
    main()
