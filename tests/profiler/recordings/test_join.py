"""Both ends of a connection find each other, and what one sent the other received."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.profiler.recording import Network, Process, tcp, ticks, verbs
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.join import IN_FLIGHT, Joined, join
from tiresias.profiler.recordings.recording import read


def joined(net: Network, folder: Path) -> Joined:
    return join([read(path) for path in net.write(folder)])


def test_ends_find_each_other_across_hosts(tmp_path: Path) -> None:
    net = Network()
    a, b, c = (net.process(f"gpu0{n}", n) for n in (1, 2, 3))
    net.connect(a, b), net.connect(c, b)
    found = joined(net, tmp_path)
    assert found.nodes == ("gpu01:1", "gpu02:2", "gpu03:3")
    assert found.peers == ((1,), (0, 2), (1,))


def test_an_end_without_a_recording_is_named_by_its_address(tmp_path: Path) -> None:
    net = Network()
    a, b = net.process("gpu01", 1), net.process("gpu02", 2)
    net.connect(a, b)
    found = join([read(net.write(tmp_path)[0])])
    assert found.recorded == 1
    assert found.nodes == ("gpu01:1", "10.0.0.2:2222")
    assert found.peers == ((1,),)


def channel(
    process: Process, kind: int, local: tuple[object, ...], remote: tuple[object, ...], opened: float = 0.0
) -> None:
    process.channels.append((kind, 5, ticks(opened), 0, 0, local, remote, np.void(bytes(8))))


def test_loopback_means_the_same_host(tmp_path: Path) -> None:
    net = Network()
    ends = tcp("127.0.0.1", 4000), tcp("127.0.0.1", 2222)
    for host in ("gpu01", "gpu02"):
        channel(net.process(host, 1), layout.TCP, *ends)
        channel(net.process(host, 2), layout.TCP, *ends[::-1])
    assert joined(net, tmp_path).peers == ((1,), (0,), (3,), (2,))


def test_an_ipv4_address_in_ipv6_clothes(tmp_path: Path) -> None:
    net = Network()
    dressed = (layout.INET6, 4000, 0, np.void(bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1])), 0, np.void(bytes(18)))
    channel(net.process("a", 1), layout.TCP, dressed, tcp("10.0.0.2", 2222))
    channel(net.process("b", 2), layout.TCP, tcp("10.0.0.2", 2222), tcp("10.0.0.1", 4000))
    assert joined(net, tmp_path).peers == ((1,), (0,))


def test_queue_pairs_of_one_port(tmp_path: Path) -> None:
    net = Network()
    a, b = bytes([254, 128]) + bytes(13) + b"\x01", bytes([254, 128]) + bytes(13) + b"\x02"
    for number in (17, 18):
        channel(net.process("a", number), layout.QUEUE_PAIR, verbs(a, number), verbs(b, number + 100))
    for number in (18, 17):
        channel(net.process("b", number), layout.QUEUE_PAIR, verbs(b, number + 100), verbs(a, number))
    assert joined(net, tmp_path).peers == ((3,), (2,), (1,), (0,))


def test_a_port_that_is_used_again(tmp_path: Path) -> None:
    net = Network()
    ends = tcp("10.0.0.1", 4000), tcp("10.0.0.2", 2222)
    for pid, opened in ((1, 0.0), (2, 100.0)):
        channel(net.process("a", pid), layout.TCP, *ends, opened)
    for pid, opened in ((3, 100.1), (4, 0.1)):
        channel(net.process("b", pid), layout.TCP, *ends[::-1], opened)
    assert joined(net, tmp_path).peers == ((3,), (2,), (1,), (0,))


@pytest.mark.parametrize("missing", [0, IN_FLIGHT, IN_FLIGHT + 1])
def test_bytes_that_did_not_arrive(tmp_path: Path, missing: int) -> None:
    net = Network()
    link = net.connect(net.process("a", 1), net.process("b", 2))
    net.send(link, 1.0, 100_000_000, received=100_000_000 - missing)
    found = joined(net, tmp_path).mismatches
    assert bool(found) == (missing > IN_FLIGHT)
    assert not found or found[0].startswith(
        "10.0.0.1:40001 sent 100,000,000 bytes to 10.0.0.2:2222, which received 91,"
    )


def test_what_was_dropped_is_no_mismatch(tmp_path: Path) -> None:
    net = Network()
    link = net.connect(net.process("a", 1), net.process("b", 2))
    net.send(link, 1.0, 100_000_000, received=1)
    paths = net.write(tmp_path)
    paths[1].write_bytes(net.processes[1].content(dropped=1))
    assert joined_files(paths).mismatches == ()


def joined_files(paths: list[Path]) -> Joined:
    return join([read(path) for path in paths])
