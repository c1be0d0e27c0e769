"""Runs shell scripts in virtual machines that have a soft-RoCE device each, alone or two of them on one cable.

    output = run([Guest(folder, script)])
    first, second = run([Guest(one, serve), Guest(two, connect)])

A guest sees `folder` as /share. Its RDMA device is rxe0, its address 10.0.0.1 or 10.0.0.2, its name guest1 or guest2. The
processor is emulated, as many machines that run tests have no other. The clock of a guest that is alone counts
its instructions, two ns each: what else the machine does is not in it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.profiler.rdma import guest_image

QEMU = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
HELPERS = Path(__file__).with_name("helpers.sh").read_text()
MEMORY_MB = 512
NO_TIMER_CHECK = "no_timer_check"  # on a busy machine the timer ticks too late for the kernel's check of it


@dataclass(frozen=True)
class Guest:
    folder: Path
    script: str


class GuestFailed(AssertionError):
    """A guest did not start, its script failed, or it took too long. The message has all its output."""


def missing() -> str:
    """What must be installed before a guest can run; empty if nothing."""
    return "" if shutil.which(QEMU) else f"no {QEMU}: a soft-RoCE guest needs it (Debian: {PACKAGE})"


def run(guests: Sequence[Guest], timeout: float = 120) -> list[str]:
    """What each script wrote. All scripts run at the same time. Raises GuestFailed."""
    image = guest_image.ensure()
    deadline = time.monotonic() + timeout
    with ExitStack() as stack:
        cable = [stack.enter_context(end) for end in socket.socketpair()]
        started = [
            stack.enter_context(_start(image, guest, number, cable if len(guests) > 1 else []))
            for number, guest in enumerate(guests)
        ]
        try:
            for process, guest in zip(started, guests, strict=True):
                _wait(process, guest, deadline)
        finally:
            for process in started:
                process.kill()
    return [_output(guest) for guest in guests]


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
until [ "$(cat /sys/class/infiniband/rxe0/ports/1/state)" = "4: ACTIVE" ]; do sleep 0.1; done
"""


def _wait(process: subprocess.Popen[bytes], guest: Guest, deadline: float) -> None:
    try:
        process.wait(max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise GuestFailed(f"the guest was not done in time\n{_output(guest)}") from None
    status = guest.folder / "status"
    if not status.exists() or status.read_text().strip() != "0":
        raise GuestFailed(f"the guest's script failed\n{_output(guest)}")


def _output(guest: Guest) -> str:
    files = [guest.folder / name for name in ("qemu", "console", "output")]
    return "".join(f"--- {file.name}\n{file.read_text(errors='replace')}" for file in files if file.exists())
