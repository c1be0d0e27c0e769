"""Trains over TCP: rank 0 is a parameter server, the others send it their gradients and fetch the model, a tensor a message.

    srun -n3 python3 exchange.py ADDRESS_FILE ITERATIONS SECONDS_OF_COMPUTING BYTES_OF_A_TENSOR...

The server writes its address to the file, which is new. Standard library only: it runs on nodes without anything else.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

FETCH, PUSH = b"F", b"P"


def main() -> None:
    address, iterations, compute = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    tensors = [int(size) for size in sys.argv[4:]]
    if os.environ["SLURM_PROCID"] == "0":
        serve(address, tensors, int(os.environ["SLURM_NTASKS"]) - 1)
    else:
        work(address, tensors, iterations, compute)


def serve(address: Path, tensors: list[int], workers: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        unfinished = address.with_suffix(".new")
        unfinished.write_text(str(server.getsockname()[1]))
        unfinished.rename(address)
        threads = [threading.Thread(target=attend, args=(server.accept()[0], tensors)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def attend(worker: socket.socket, tensors: list[int]) -> None:
    worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while asked := worker.recv(1):
        for size in tensors:
            if asked == FETCH:
                worker.sendall(bytes(size))
            else:
                receive(worker, size)


def work(address: Path, tensors: list[int], iterations: int, compute: float) -> None:
    while not address.exists():
        time.sleep(0.02)
    with socket.create_connection(("127.0.0.1", int(address.read_text()))) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(iterations):
            server.sendall(FETCH)
            for size in tensors:
                receive(server, size)
            time.sleep(compute)
            server.sendall(PUSH)
            for size in tensors:
                server.sendall(bytes(size))


def receive(end: socket.socket, size: int) -> None:
    while size:
        size -= len(end.recv(size))


if __name__ == "__main__":
    main()
