"""Messages of gRPC are recorded whole, however HTTP/2 mixes them and calls cut them; all else as the calls that it is."""

from __future__ import annotations

import json
import os
import random
import sys

import pytest

from tests.profiler.native.conftest import Compile, Stage
from tiresias.profiler import build
from tiresias.profiler.recordings import layout

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS = 0, 1, 3, 4

SENDER = """if True:
    import json, socket, sys
    pieces = [bytes.fromhex(piece) for piece in json.load(open(sys.argv[1]))]
    listener = socket.create_server(("127.0.0.1", 0))
    local = socket.create_connection(listener.getsockname())
    remote, _ = listener.accept()
    for number, piece in enumerate(pieces):
        if number % 3:
            half = len(piece) // 2
            assert local.sendmsg([piece[:half], b"", piece[half:]]) == len(piece)
        else:
            assert local.send(piece) == len(piece)
        left = len(piece)
        while left:
            left -= len(remote.recv(left))
"""


def frame(kind: int, stream: int, content: bytes, flags: int = 0) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def message(size: int) -> bytes:
    return b"\0" + size.to_bytes(4, "big") + b"x" * size


def sends(stage: Stage, pieces: list[bytes]) -> list[int]:
    pieces_file = stage.folder.with_name("pieces.json")
    pieces_file.write_text(json.dumps([piece.hex() for piece in pieces]))
    stage.run(sys.executable, "-c", SENDER, pieces_file)
    records = stage.only().records
    sizes: list[int] = records["asked"][records["operation"] == layout.SEND].tolist()
    return sizes


def mixed(chance: random.Random, messages: dict[int, list[int]]) -> tuple[bytes, list[int]]:
    """Streams in turns at random; the sizes of their messages as they end."""
    content = {stream: b"".join(map(message, sizes)) for stream, sizes in messages.items()}
    ends = {stream: list(sizes) for stream, sizes in messages.items()}
    sent, received, order = b"", dict.fromkeys(messages, 0), []
    while content:
        stream = chance.choice(sorted(content))
        size = chance.choice([0, 1, 3, 5, 100, 16384])
        part, content[stream] = content[stream][:size], content[stream][size:]
        sent += chance.choice([b"", frame(HEADERS, stream, b"h" * 20), frame(8, 0, b"wind")]) + frame(
            DATA, stream, part
        )
        received[stream] += len(part)
        while ends[stream] and received[stream] >= ends[stream][0] + 5:
            received[stream] -= ends[stream][0] + 5
            order.append(ends[stream].pop(0))
        content = {each: rest for each, rest in content.items() if rest}
    return sent, order


def cut(chance: random.Random, content: bytes) -> list[bytes]:
    pieces = []
    while content:
        size = chance.choice([1, 2, 7, 40, 1000, 60_000])
        pieces.append(content[:size])
        content = content[size:]
    return pieces


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "begin", [PREFACE + frame(SETTINGS, 0, b"s" * 12), frame(SETTINGS, 0, b"s" * 18)], ids=["client", "server"]
)
def test_messages_of_several_streams(stage: Stage, begin: bytes, seed: int) -> None:
    chance = random.Random(seed)
    streams = {
        2 * n + 1: [chance.choice([1, 30, 5000, 70_000]) for _ in range(5)] for n in range(chance.randint(1, 30))
    }
    content, order = mixed(chance, streams)
    start = begin if chance.random() < 0.5 else begin + content[:50]
    rest = content if start == begin else content[50:]
    assert sends(stage, [start, *cut(chance, rest)]) == order
    assert stage.only().channels["flags"].max() == layout.GRPC


def test_a_message_that_is_given_up(stage: Stage) -> None:
    unfinished = frame(DATA, 1, message(1000)[:500]) + frame(RESET, 1, b"code")
    assert sends(stage, [PREFACE, unfinished, frame(DATA, 1, message(70))]) == [70]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_no_grpc_is_recorded_call_by_call(stage: Stage, seed: int) -> None:
    """From where it can no longer be followed; nothing else happens to the program."""
    chance = random.Random(seed)
    noise = [chance.randbytes(chance.randint(1, 3000)) for _ in range(40)]
    assert sends(stage, [PREFACE, *noise])[-30:] == [len(piece) for piece in noise[-30:]]


@pytest.mark.parametrize("content", [b"PRI * HTTP/1.0", b"x" * 3000, bytes(100)])
def test_other_connections_stay_as_they_are(stage: Stage, content: bytes) -> None:
    assert sends(stage, [content, PREFACE, content]) == [len(content), len(PREFACE), len(content)]
    assert not stage.only().channels["flags"].any()


@pytest.mark.skipif(os.environ.get("LD_PRELOAD", "") != "", reason="sanitizers must be the first library")
@pytest.mark.parametrize("seed", range(5))
def test_under_sanitizers_any_bytes_do_no_harm(stage: Stage, compiled: Compile, seed: int) -> None:
    """Streams mixed, calls cut anywhere: every message once. Then the same with bytes changed: nothing but records."""
    options = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-D_GNU_SOURCE", f"-I{build.SOURCE}", "-g")
    parts = tuple(build.SOURCE / f"{name}.c" for name in ("framing", "recorder", "session", "clock", "system"))
    program = compiled("framing", *options, sources=parts)
    done = stage.run(program, seed, 300, LD_PRELOAD="")
    assert not done.stderr
    # two messages a round; those of the second half are spoilt
    sent = [int(word) for word in done.stdout.split()][:600]
    records = stage.only().records
    whole = records[records["channel"] == 0]["asked"].tolist()
    assert sorted(whole) == sorted(length for length in sent if length)
