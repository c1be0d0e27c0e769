"""The records of a program's transfers equal those that the program prints, byte by byte and call by call."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Sequence

import pytest

from tests.profiler.native.conftest import Compile, Rows, Stage
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.recording import Recording

SEND, RECV = layout.SEND, layout.RECV


@pytest.mark.parametrize("options", [(), ("-D_FORTIFY_SOURCE=2",)], ids=["plain", "fortified"])
def test_every_call_is_recorded_as_the_program_saw_it(
    stage: Stage,
    compiled: Compile,
    rows: Callable[[Recording], Rows],
    expected: Callable[[str], Rows],
    options: Sequence[str],
) -> None:
    printed = expected(stage.run(compiled("transfers", *options)).stdout)
    assert len(printed) > 25
    assert rows(stage.only()) == printed


def test_a_number_that_means_something_else_is_looked_up_again(
    stage: Stage, compiled: Compile, rows: Callable[[Recording], Rows], expected: Callable[[str], Rows]
) -> None:
    printed = expected(stage.run(compiled("descriptors")).stdout)
    assert rows(stage.only()) == printed


def test_closed_channels_record_the_time(stage: Stage, compiled: Compile) -> None:
    stage.run(compiled("descriptors"))
    recording = stage.only()
    for index, channel in enumerate(recording.channels):
        times = recording.records["time"][recording.records["channel"] == index]
        assert channel["opened"] <= times.min() <= times.max() <= channel["closed"]


PEERS = """
    import socket, sys
    listener = socket.socket({family}); listener.bind(({host!r}, 0)); listener.listen()
    port = listener.getsockname()[1]
    local = socket.socket({family}); local.connect(({host!r}, port)); remote, _ = listener.accept()
    local.sendall(b"x" * 1000)
    while remote.recv(300): break
    print(local.getsockname()[1], port)
"""


@pytest.mark.parametrize(
    ("family", "host", "written"),
    [
        ("socket.AF_INET", "127.0.0.1", (2, bytes([127, 0, 0, 1]) + bytes(12))),
        ("socket.AF_INET6", "::1", (10, bytes(15) + b"\1")),
        ("socket.AF_INET6", "::ffff:127.0.0.1", (2, bytes([127, 0, 0, 1]) + bytes(12))),
    ],
)
def test_both_ends_of_a_connection(stage: Stage, family: str, host: str, written: tuple[int, bytes]) -> None:
    program = textwrap.dedent(PEERS).format(family=family, host=host)
    done = stage.attempt(sys.executable, "-c", program)
    if "Error" in done.stderr and family == "socket.AF_INET6":
        pytest.skip("no IPv6 here")
    local, remote = (int(port) for port in done.stdout.split())
    recording = stage.only()
    ends = [(int(each["local"]["port"]), int(each["remote"]["port"])) for each in recording.channels]
    assert ends == [(local, remote), (remote, local)]
    for channel in recording.channels:
        assert channel["kind"] == layout.TCP
        for end in (channel["local"], channel["remote"]):
            assert (int(end["family"]), end["address"].tobytes()) == written
    assert recording.records["asked"].tolist() == [1000, 300]
    assert recording.records["done"].tolist() == [1000, 300]


def test_times_are_those_of_the_wall_clock(stage: Stage) -> None:
    program = textwrap.dedent(PEERS).format(family="socket.AF_INET", host="127.0.0.1")
    before = time.time()
    stage.run(sys.executable, "-c", program + "import time; time.sleep(0.3); local.send(b'y')\n")
    first, *_, last = stage.only().seconds
    assert before < first < last < time.time()
    assert 0.29 < last - first < 5


def test_python_programs_send_as_before(stage: Stage) -> None:
    """A server and its client over asyncio, which does all it can with non-blocking sockets."""
    program = """
        import asyncio
        async def serve(reader, writer):
            writer.write(await reader.readexactly(3_000_000)); await writer.drain(); writer.close()
        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(bytes(3_000_000))
            print(len(await reader.read(-1)))
        asyncio.run(main())
    """
    assert stage.run(sys.executable, "-c", textwrap.dedent(program)).stdout == "3000000\n"
    records = stage.only().records
    for operation in (SEND, RECV):
        assert records["done"][records["operation"] == operation].sum() == 6_000_000
