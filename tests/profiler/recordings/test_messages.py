"""Records become messages: no byte is lost, none counts twice."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.profiler.recording import Link, Network
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.messages import Stream, traffic
from tiresias.profiler.recordings.recording import read


def streams(net: Network, folder: Path, only: slice = slice(None)) -> dict[tuple[int, int], Stream]:
    return {
        (each.sender, each.receiver): each for each in traffic([read(path) for path in net.write(folder)[only]]).streams
    }


def pair() -> tuple[Network, Link]:
    net = Network()
    return net, net.connect(net.process("a", 1), net.process("b", 2))


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(st.lists(st.integers(1, 10**6), min_size=1, max_size=4), min_size=1, max_size=10))
def test_a_message_that_went_in_pieces(tmp_path: Path, messages: list[list[int]]) -> None:
    """Each message is a list of pieces: what each call of a non-blocking sender put out."""
    net, link = pair()
    time = 0.0
    for pieces in messages:
        rest = sum(pieces)
        for piece in pieces:
            link.sender.record(time, link.here, layout.SEND, rest, piece)
            rest, time = rest - piece, time + 0.001
    (found,) = streams(net, tmp_path).values()
    assert found.size.tolist() == [sum(pieces) for pieces in messages]


def test_parts_that_announce_more(tmp_path: Path) -> None:
    net, link = pair()
    for time, size, flags in ((0.0, 16, layout.MORE), (0.1, 4096, 0), (0.2, 16, 0)):
        link.sender.record(time, link.here, layout.SEND, size, flags=flags)
    (found,) = streams(net, tmp_path).values()
    assert found.size.tolist() == [4112, 16]


def test_posts_have_no_result_and_are_messages(tmp_path: Path) -> None:
    net, link = pair()
    for time in (0.0, 0.1):
        link.sender.record(time, link.here, layout.WRITE, 4096, 0)
    (found,) = streams(net, tmp_path).values()
    assert found.size.tolist() == [4096, 4096]


def test_errors_and_receives_of_recorded_senders_do_not_count(tmp_path: Path) -> None:
    net, link = pair()
    net.send(link, 0.0, 100)
    link.sender.record(0.1, link.here, layout.SEND, 100, 0, flags=layout.ERROR)
    (found,) = streams(net, tmp_path).values()
    assert (found.sender, found.receiver, found.size.tolist()) == (0, 1, [100])


def test_receives_count_where_the_sender_was_not_recorded(tmp_path: Path) -> None:
    net, link = pair()
    net.send(link, 0.0, 100)
    (found,) = streams(net, tmp_path, slice(1, 2)).values()
    assert (found.sender, found.receiver, found.size.tolist()) == (1, 0, [100])


def test_a_read_is_a_message_of_the_other_end(tmp_path: Path) -> None:
    net, link = pair()
    link.sender.record(0.0, link.here, layout.READ, 4096, 0)
    (found,) = streams(net, tmp_path).values()
    assert (found.sender, found.receiver, found.size.tolist()) == (1, 0, [4096])


def test_no_records_no_streams(tmp_path: Path) -> None:
    net, _ = pair()
    assert streams(net, tmp_path) == {}
