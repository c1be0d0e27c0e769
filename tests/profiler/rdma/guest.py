"""Runs shell scripts in virtual machines that have a soft-RoCE device each, alone or two of them on one cable.

    output = run([Guest(folder, script)])
    first, second = run([Guest(one, serve), Guest(two, connect)])

A guest sees `folder` as /share. Its RDMA device is rxe0, its address 10.0.0.1 or 10.0.0.2, its name guest1 or guest2. The
processor is emulated, as many machines that run tests have no other. The clock of a guest that is alone counts
its instructions, two ns each: what else the machine does is not in it.

Linux' soft-RoCE driver corrupts its kernel's memory once in a while (6.12.117: a fault below rxe_requester in one of
some dozens of boots). Guests whose kernel panicked are started again; a script that fails is not.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.profiler.rdma import guest_image

QEMU = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
HELPERS = Path(__file__).with_name("helpers.sh").read_text()
MEMORY_MB = 512
BOOTS = 3
PANIC = "Kernel panic"
NO_TIMER_CHECK = "no_timer_check"  # on a busy machine the timer ticks too late for the kernel's check of it


@dataclass(frozen=True)
class Guest:
    folder: Path
    script: str


class GuestFailed(AssertionError):
    """A guest did not start, its script failed, or it took too long. The message has all its output."""


class GuestPanicked(GuestFailed):
    """The kernel of a guest failed."""


def missing() -> str:
    """What must be installed before a guest can run; empty if nothing."""
    return "" if shutil.which(QEMU) else f"no {QEMU}: a soft-RoCE guest needs it (Debian: {PACKAGE})"


def run(guests: Sequence[Guest], timeout: float = 120) -> list[str]:
    """What each script wrote. All scripts run at the same time. Raises GuestFailed, after BOOTS boots GuestPanicked."""
    image = guest_image.ensure()
    deadline = time.monotonic() + timeout
    prepared = {file for guest in guests for file in guest.folder.rglob("*")}
    for _ in range(BOOTS - 1):
        try:
            return _run(image, guests, deadline)
        except GuestPanicked:
            _remove_all_but(prepared, guests)
    return _run(image, guests, deadline)


def _run(image: Path, guests: Sequence[Guest], deadline: float) -> list[str]:
    with ExitStack() as stack:
        cable = [stack.enter_context(end) for end in socket.socketpair()]
        started = [
            stack.enter_context(_start(image, guest, number, cable if len(guests) > 1 else []))
            for number, guest in enumerate(guests)
        ]
        try:
            _wait(started, guests, deadline)
        finally:
            for process in started:
                process.kill()
    return [_output(guest) for guest in guests]


def _remove_all_but(prepared: Set[Path], guests: Sequence[Guest]) -> None:
    for guest in guests:
        for file in sorted(set(guest.folder.rglob("*")) - prepared, reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()


def _start(image: Path, guest: Guest, number: int, cable: Sequence[socket.socket]) -> subprocess.Popen[bytes]:
    (guest.folder / "script").write_text(_prelude(number, bool(cable)) + guest.script)
    command = [
        "setpriv", "--pdeathsig", "KILL", QEMU, "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", str(MEMORY_MB),
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-kernel", str(image / "kernel"), "-initrd", str(image / "initramfs"),
        "-append", f"console=ttyS0 quiet panic=-1 {NO_TIMER_CHECK}", "-serial", f"file:{guest.folder / 'console'}",
        "-virtfs", f"local,path={image / 'root'},mount_tag=root,security_model=none,readonly=on",
        "-virtfs", f"local,path={guest.folder},mount_tag=share,security_model=none",
    ]  # fmt: skip
    if cable:
        end = cable[number].fileno()
        card = f"virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0{number}"
        command += ["-netdev", f"socket,id=cable,fd={end}", "-device", card]
    else:
        command += ["-icount", "shift=1,sleep=off"]
    with (guest.folder / "qemu").open("wb") as words:
        files = [end.fileno() for end in cable]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, pass_fds=files)


def _prelude(number: int, cable: bool) -> str:
    interface = "eth0" if cable else "dummy0"
    return f"""{HELPERS}
hostname guest{number + 1}
ip link set lo up
ip address add 10.0.0.{number + 1}/24 dev {interface}
ip link set {interface} up
rdma link add rxe0 type rxe netdev {interface}
port=/sys/class/infiniband/rxe0/ports/1
until [ "$(cat $port/state)" = "4: ACTIVE" ]; do sleep 0.1; done
until grep -q [1-9a-f] $port/gids/1 2>/dev/null; do sleep 0.1; done # the one of the IPv4 address, which the kernel adds later
"""


def _wait(started: Sequence[subprocess.Popen[bytes]], guests: Sequence[Guest], deadline: float) -> None:
    """Until each guest is off, or one has failed: the other one may wait for it."""
    with ExitStack() as stack, selectors.DefaultSelector() as running:
        for process, guest in zip(started, guests, strict=True):
            end = os.pidfd_open(process.pid)
            stack.callback(os.close, end)
            running.register(end, selectors.EVENT_READ, guest)
        while running.get_map():
            ended = running.select(max(deadline - time.monotonic(), 0))
            if not ended:
                raise GuestFailed("the guests were not done in time\n" + "\n".join(map(_output, guests)))
            for key, _ in ended:
                running.unregister(key.fd)
                _require_success(key.data)


def _require_success(guest: Guest) -> None:
    status = guest.folder / "status"
    if status.exists() and status.read_text().strip() == "0":
        return
    if PANIC in (guest.folder / "console").read_text(errors="replace"):
        raise GuestPanicked(f"the guest's kernel failed\n{_output(guest)}")
    raise GuestFailed(f"the guest's script failed\n{_output(guest)}")


def _output(guest: Guest) -> str:
    files = [guest.folder / name for name in ("qemu", "console", "output")]
    return "".join(f"--- {file.name}\n{file.read_text(errors='replace')}" for file in files if file.exists())
