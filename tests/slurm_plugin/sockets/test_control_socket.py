"""Real sockets and real threads: good clients, slow ones, hostile ones, and daemons that died."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.sockets import control_socket
from tiresias.slurm_plugin.sockets.control_client import ask
from tiresias.slurm_plugin.sockets.control_socket import CLIENT_TIMEOUT_S, MAX_CLIENTS, MAX_REQUEST_BYTES, ControlServer
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.poke_socket import PokeSocket, poke

BIG = {"text": "x" * 5_000_000}


def answer(request: dict[str, Any], peer: Peer) -> dict[str, Any]:
    if request.get("op") == "big":
        return BIG
    if request.get("op") == "refuse":
        raise TiresiasError("job 7: not known here")
    if request.get("op") == "defect":
        raise KeyError("oops")
    if request.get("op") == "unencodable":
        return {"x": {1, 2}}
    if request.get("op") == "peer":
        return peer._asdict()
    return {"echo": request}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def server(path: Path) -> Iterator[ControlServer]:
    with ControlServer(path, answer) as running:
        yield running


def raw(path: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.settimeout(10)
        client.sendall(data)
        received = b""
        while part := client.recv(65536):
            received += part
    return received


def connected(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.settimeout(10)
    return client


def test_one_line_asks_and_one_line_answers(server: ControlServer, path: Path) -> None:
    assert ask(path, {"op": "status"}) == {"echo": {"op": "status"}}
    assert raw(path, b'{"op": "x"}\n') == b'{"echo": {"op": "x"}}\n'
    assert ask(path, {"op": "big"}) == BIG


def test_anyone_may_ask(server: ControlServer, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_the_kernel_reports_the_user_of_a_request(server: ControlServer, path: Path) -> None:
    assert ask(path, {"op": "peer", "uid": 0}) == {"pid": os.getpid(), "uid": os.geteuid(), "gid": os.getegid()}


def test_errors_are_one_line_and_the_service_goes_on(server: ControlServer, path: Path) -> None:
    with pytest.raises(TiresiasError, match="job 7: not known here"):
        ask(path, {"op": "refuse"})
    with pytest.raises(TiresiasError, match="could not answer: KeyError"):
        ask(path, {"op": "defect"})
    with pytest.raises(TiresiasError, match="could not answer: TypeError"):
        ask(path, {"op": "unencodable"})
    assert ask(path, {"op": "fine"})


@pytest.mark.parametrize(
    "request_", [b"\n", b"[]\n", b"nonsense\n", b"\xff\xfe\n", b"[" * 60_000 + b"\n", b"1" * 9_000 + b"\n"]
)
def test_what_is_no_request_is_answered_so(server: ControlServer, path: Path, request_: bytes) -> None:
    assert "a request is one line of JSON" in json.loads(raw(path, request_))["error"]


def test_a_request_without_end_is_cut_off(server: ControlServer, path: Path) -> None:
    with connected(path) as client, pytest.raises(ConnectionError):
        client.sendall(
            b"x" * 100 * MAX_REQUEST_BYTES
        )  # it answers and closes the connection while the client still sends
    assert ask(path, {"op": "fine"})


def test_many_at_once(server: ControlServer, path: Path) -> None:
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda number: ask(path, {"n": number}, 20), range(300)))
    assert answers == [{"echo": {"n": number}} for number in range(300)]


def test_silent_and_slow_clients_delay_no_other(server: ControlServer, path: Path) -> None:
    silent = [connected(path) for _ in range(20)]
    slow = [connected(path) for _ in range(20)]
    for client in slow:
        client.sendall(b'{"op": "big"}\n')  # and never reads
    began = time.monotonic()
    assert ask(path, {"op": "fine"})
    assert time.monotonic() - began < CLIENT_TIMEOUT_S, "it waited until another client was cut off"
    for client in silent + slow:
        client.close()


def test_a_user_with_too_many_connections_loses_only_these(server: ControlServer, path: Path) -> None:
    hoard = [connected(path) for _ in range(MAX_CLIENTS + 30)]
    assert ask(path, {"op": "fine"})
    assert hoard[0].recv(1) == b""  # the oldest was dropped
    for client in hoard:
        client.close()


def test_a_client_waits_for_a_crowd_to_pass(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as crowd:
        busy.bind(str(path))
        busy.listen(0)
        crowd.connect(str(path))
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(ask, path, {}, 20)
            time.sleep(0.2)  # it has met the full queue by now, or the test proves less
            busy.accept()[0].close()
            connection = busy.accept()[0]
            connection.recv(100)
            connection.sendall(b'{"late": true}\n')
            connection.close()
            assert asking.result() == {"late": True}


def test_a_client_has_its_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "CLIENT_TIMEOUT_S", 0.2)
    with ControlServer(path, answer), connected(path) as client:
        client.sendall(b'{"op":')
        assert client.recv(1) == b""


def test_an_answer_is_encoded_once_while_it_is_the_same(path: Path) -> None:
    published = {"n": 1}
    with ControlServer(path, lambda request, peer: published):
        assert ask(path, {}) == {"n": 1}
        published["n"] = 2  # against the rule: shows that it was not encoded again
        assert ask(path, {}) == {"n": 1}
        published = {"n": 3}
        assert ask(path, {}) == {"n": 3}


def test_without_a_server_the_request_fails(path: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"no controller answers at .*control.sock: is it running\?"):
        ask(path, {})
    path.write_text("")
    with pytest.raises(Unavailable):
        ask(path, {})


def test_a_daemon_that_hangs_is_given_up(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(path))
        hanging.listen()
        with pytest.raises(Unavailable, match="no answer in time"):
            ask(path, {}, timeout=0.2)


@pytest.mark.parametrize("reply", [b"", b"nonsense\n", b'{"half":', b"[]\n"])
def test_an_answer_that_is_none(path: Path, reply: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as strange:
        strange.bind(str(path))
        strange.listen()

        def speak() -> None:
            connection, _ = strange.accept()
            connection.recv(100)
            connection.sendall(reply)
            connection.close()

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(Unavailable, match=str(path)):
            ask(path, {}, timeout=5)
        thread.join()


def test_the_socket_goes_when_the_server_goes(path: Path) -> None:
    with ControlServer(path, answer):
        assert path.exists()
    assert list(path.parent.iterdir()) == []


def test_a_second_daemon_is_refused_and_harms_nothing(server: ControlServer, path: Path) -> None:
    with pytest.raises(TiresiasError, match="another controller listens"):
        ControlServer(path, answer)
    assert ask(path, {"op": "fine"})


def test_a_killed_daemons_socket_is_replaced(path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tiresias.slurm_plugin.sockets.control_socket import ControlServer\n"
        "from tiresias.slurm_plugin.sockets.poke_socket import PokeSocket\n"
        "s = ControlServer(Path(sys.argv[1]), dict); p = PokeSocket(Path(sys.argv[2]))\n"
        "print('up', flush=True); time.sleep(60)"
    )
    pokes = path.with_name("poke.sock")
    with subprocess.Popen([sys.executable, "-c", code, str(path), str(pokes)], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"up\n"
        with pytest.raises(TiresiasError, match="another controller listens"):
            PokeSocket(pokes)
        daemon.send_signal(signal.SIGKILL)
    assert path.exists()
    with pytest.raises(Unavailable):
        poke(pokes)
    with ControlServer(path, answer):
        assert ask(path, {"op": "fine"})
    PokeSocket(pokes).close()


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(TiresiasError, match="is not a socket"):
        ControlServer(path, answer)
    assert path.read_text() == "mine"


def test_places_where_no_socket_can_be(tmp_path: Path) -> None:
    with pytest.raises(TiresiasError, match="too long for a Unix socket"):
        ControlServer(tmp_path / ("x" * 120), answer)
    with pytest.raises(TiresiasError, match=r"check that paths\.run"):
        ControlServer(tmp_path / "missing" / "control.sock", answer)


def test_pokes_wake_and_pile_up_to_one(tmp_path: Path) -> None:
    path = tmp_path / "poke.sock"
    listener = PokeSocket(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert not listener.wait(0)
    for _ in range(100):  # more than its queue holds: no call blocks
        poke(path)
    assert listener.wait(5)
    assert not listener.wait(0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(os.urandom(5000), str(path))
        sender.sendto(b"", str(path))
    assert listener.wait(5)
    assert not listener.wait(0)
    listener.close()
    assert not path.exists()


def test_a_poke_ends_the_wait_at_once(tmp_path: Path) -> None:
    listener = PokeSocket(tmp_path / "poke.sock")
    threading.Timer(0.1, poke, [tmp_path / "poke.sock"]).start()
    began = time.monotonic()
    assert listener.wait(30)
    assert time.monotonic() - began < 10
    listener.close()


def test_an_arrival_ends_the_wait(tmp_path: Path) -> None:
    listener = PokeSocket(tmp_path / "poke.sock")
    arrivals = tmp_path / "arrivals"
    assert stat.S_IMODE(arrivals.stat().st_mode) == 0o660
    for _ in range(3):
        with arrivals.open("a") as file:
            file.write("..")
        assert listener.wait(5)
        assert not listener.wait(0)
    listener.close()
    with arrivals.open("a") as file:
        file.write(".")
    successor = PokeSocket(tmp_path / "poke.sock")
    assert not successor.wait(0.3)  # its first cycle sees that job anyway
    successor.close()
