"""Programs without any code for the recorder, on a soft-RoCE device: the recording equals the output of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.profiler.rdma.guest import Guest, run
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.join import join
from tiresias.profiler.recordings.layout import POST_RECV, READ, SEND, WRITE
from tiresias.profiler.recordings.recording import Recording

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600), pytest.mark.xdist_group("guests")]
Counts = dict[tuple[int, int], int]  # (operation, bytes): how often


@dataclass(frozen=True)
class Case:
    command: str  # of both ends; the client also gets the server's address
    printed: str  # what the client prints, a regular expression
    client: Counts
    server: Counts


PINGS: Counts = {(SEND, 5000): 200}
CASES = {
    "pingpong": Case("ibv_rc_pingpong -g 1 -n 200 -s 5000", r"^2000000 bytes .*\n200 iters", PINGS, PINGS),
    "pingpong_wr": Case("ibv_rc_pingpong -g 1 -n 200 -s 5000 -N", r"^2000000 bytes .*\n200 iters", PINGS, PINGS),
    "datagrams": Case(
        "ibv_ud_pingpong -g 1 -n 50 -s 1000", r"^100000 bytes .*\n50 iters", {(SEND, 1000): 50}, {(SEND, 1000): 50}
    ),
    "write": Case("ib_write_bw -x 1 -n 200 -s 65536 -F", r"^ 65536 +200 ", {(WRITE, 65536): 200}, {}),
    "send": Case("ib_send_bw -x 1 -n 200 -s 3000 -F", r"^ 3000 +200 ", {(SEND, 3000): 200}, {}),
    "read": Case("ib_read_bw -x 1 -n 200 -s 4096 -F", r"^ 4096 +200 ", {(READ, 4096): 200}, {}),
}


def script() -> str:
    lines = []
    for name, case in CASES.items():
        lines += [
            f"recorded {name}.server {case.command} > /share/{name}.server.txt 2>&1 & server=$!",
            "listening 18515",
            f"recorded {name}.client {case.command} 10.0.0.1 > /share/{name}.txt 2>&1",
            "wait $server",
        ]
    lines += [
        "recorded rping.server rping -s -a 10.0.0.1 -C 10 -S 100 > /share/rping.server.txt 2>&1 & server=$!",
        "listening_cm",
        "recorded rping.client rping -c -a 10.0.0.1 -C 10 -S 100 -v > /share/rping.txt 2>&1",
        "wait $server",
        "recorded linked /share/linked > /share/linked.txt",
        "recorded looked_up /share/looked_up > /share/looked_up.txt",
        "PRELOAD= recorded named /share/named > /share/named.txt",
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def folder(prepare: Callable[..., Path]) -> Path:
    folder = prepare(
        "programs",
        linked=("loop", "-libverbs"),
        looked_up=("loop", '-DLOOK_UP="libibverbs.so.1"', "-ldl"),
        named=("loop", '-DLOOK_UP="/share/libtiresias_verbs.so"', "-ldl"),
    )
    run([Guest(folder, script())], timeout=540)
    return folder


@pytest.fixture
def ends(
    folder: Path, recordings: Callable[[Path, str], list[Recording]]
) -> Callable[[str], tuple[Recording, Recording]]:
    def get(name: str) -> tuple[Recording, Recording]:
        (client,), (server,) = recordings(folder, f"{name}.client"), recordings(folder, f"{name}.server")
        return client, server

    return get


def posted(recording: Recording) -> Counter[tuple[int, int]]:
    """Without the records of receive buffers."""
    verbs = recording.channels["kind"][recording.records["channel"]] != layout.TCP
    records = recording.records[verbs & (recording.records["operation"] != POST_RECV)]
    return Counter((int(record["operation"]), int(record["asked"])) for record in records)


def joined(first: Recording, second: Recording) -> bool:
    """All that either of them recorded was with the other."""
    return all(peer == 1 - number for number, peers in enumerate(join([first, second]).peers) for peer in peers)


@pytest.mark.parametrize("name", CASES)
def test_its_output_equals_the_recording(name: str, folder: Path, ends: Callable[[str], list[Recording]]) -> None:
    case, (client, server) = CASES[name], ends(name)
    assert re.search(case.printed, (folder / f"{name}.txt").read_text(), re.MULTILINE)
    assert posted(client) == case.client
    assert posted(server) == case.server
    assert not client.notes
    assert not server.notes


@pytest.mark.parametrize("name", [*CASES, "rping"])
def test_both_ends_are_joined(name: str, ends: Callable[[str], list[Recording]]) -> None:
    client, server = ends(name)
    kinds = {int(kind) for recording in (client, server) for kind in recording.channels["kind"]}
    assert kinds & {layout.QUEUE_PAIR, layout.DATAGRAM}
    assert joined(client, server)


def test_the_connection_manager(folder: Path, ends: Callable[[str], list[Recording]]) -> None:
    """Each ping: the server receives a buffer's address, reads it, answers, receives another address, writes it, answers."""
    client, server = ends("rping")
    assert (folder / "rping.txt").read_text().count("ping data: rdma-ping-") == 10
    assert posted(client) == {(SEND, 16): 20}
    assert posted(server) == {(READ, 100): 10, (WRITE, 100): 10, (SEND, 16): 20}


@pytest.mark.parametrize("name", ["linked", "looked_up", "named"])
def test_both_ways_to_post_and_all_ways_to_find_the_functions(
    name: str, folder: Path, recordings: Callable[[Path, str], list[Recording]]
) -> None:
    (recording,) = recordings(folder, name)
    records = recording.records[recording.records["operation"] != POST_RECV]
    found = [f"{record['operation']} {record['flags']} {record['asked']}" for record in records]
    assert found == (folder / f"{name}.txt").read_text().splitlines()
    first, second = recording.channels
    assert (first["local"], first["remote"]) == (second["remote"], second["local"])
