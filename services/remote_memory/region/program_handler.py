"""The process of a program's region: python -m tiresias.services.remote_memory.region.program_handler FD FILE

libtiresias_remem starts it with a socket and the configuration. It answers with the size of the region in pages, receives the
userfaultfd, the memory file and the address, and resolves page faults until the program ends. Its last line has what was done.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.region.fault_handler import (
    SWITCH_INTERVAL_S,
    FaultHandler,
    accesses_of,
    ignore_signals,
    peer_process,
    serve,
)
from tiresias.services.remote_memory.region.program_settings import ProgramSettings, read_program_settings
from tiresias.services.remote_memory.region.region_messages import END
from tiresias.services.remote_memory.region.userfault import protect

_ADDRESS_BYTES = 64


class ProgramHandler(FaultHandler):
    """The pages of a program's region, and the line at its end.

    Args:
        program: The program's name and process.
        arguments: Those of FaultHandler.
    """

    def __init__(self, program: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._program, self._reported = program, False

    def answer(self, request: bytes, control: socket.socket) -> dict[str, Any]:
        """Carry out a request; END prints the line while the program waits."""
        if request != END:
            return super().answer(request, control)
        self.report()
        return {}

    def report(self) -> None:
        """Print once what was done."""
        if not self._reported:
            self._reported = True
            log_line(f"remote memory: {self._program}: {summary(self.statistics())}")


def summary(found: dict[str, Any]) -> str:
    """Return the statistics of a region in words."""
    local = found["read_disk"] + found["read_queue"]
    return (
        f"{found['pages_in']} pages in ({found['read_remote']} from donors, {local} from the disk), {found['pages_out']} out; "
        f"{found['in_s'] + found['out_s']:.1f} s of waits for them"
    )


def main(argv: list[str] | None = None) -> int:
    """Serve a program's region; return the exit code."""
    descriptor, file = argv or sys.argv[1:]
    ignore_signals()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with socket.socket(fileno=int(descriptor)) as control:
        try:
            _run(control, read_program_settings(Path(file)))
        except (TiresiasError, OSError) as error:
            log_line(f"remote memory: the region's process ends: {error}")
            return 1
    return 0


def _run(control: socket.socket, settings: ProgramSettings) -> None:
    process = peer_process(control)
    program = f"{Path(f'/proc/{process}/comm').read_text().strip()} ({process})"
    with RemotePages(settings.region) as pages:
        control.sendall(f"{settings.region.pages}\n".encode())
        message, descriptors, _, _ = socket.recv_fds(control, _ADDRESS_BYTES, 2)
        if len(descriptors) != 2:  # the program has no userfaultfd, and has printed why
            return
        userfault, memory = descriptors
        address, limit = int(message), settings.resident_bytes // settings.region.page_bytes
        handler = ProgramHandler(program, userfault, memory, address, pages, limit, accesses_of(control, address))
        control.sendall(b"{}\n")
        with suppress(ProcessLookupError, ConnectionError):  # the program has ended in the middle
            serve(handler, pages, control, userfault)
        if _is_alive(userfault, address, settings.region.page_bytes):
            log_line(f"remote memory: {program} has closed the descriptors of its region, and ends")
            os.kill(process, signal.SIGBUS)
        handler.report()


def _is_alive(userfault: int, address: int, page_bytes: int) -> bool:
    """Return whether the program still has the memory: then it would read zeros from now on."""
    try:
        protect(userfault, address, page_bytes, on=False)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
