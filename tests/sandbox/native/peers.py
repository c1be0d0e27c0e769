"""Two processes that exchange tensors over TCP for some iterations, as a worker and its parameter server do."""

import os
import socket
import time

TENSORS, ITERATIONS = (70000, 900, 120000), 40
server = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if child:
    connection, _ = server.accept()
    for _ in range(ITERATIONS):
        for left in TENSORS:
            while left:
                left -= len(connection.recv(left))
        connection.sendall(b"x" * 100)
    os.waitpid(child, 0)
else:
    connection = socket.create_connection(server.getsockname())
    for _ in range(ITERATIONS):
        for size in TENSORS:
            connection.sendall(b"y" * size)
        connection.recv(100)
        time.sleep(0.02)
