"""What a job states of itself when it registers. Pure."""

from __future__ import annotations

import hmac

from tiresias.errors import UsageError
from tiresias.services.parameter_service.manager.manager_journal import ClientRow
from tiresias.services.wire.handshake import KEY_BYTES
from tiresias.services.wire.peer_identity import JOB_NAME
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, COMPRESSIONS

MAX_SERVERS = 256
MAX_WORKERS = 4096  # as aggregators check it


def check_registration(job: str, key: bytes, servers: int, workers: int, compress: str = COMPRESS_NONE) -> None:
    """Check the name, the key, the numbers and the compression of a job. Raises UsageError."""
    is_named = JOB_NAME.fullmatch(job) is not None and len(key) == KEY_BYTES
    if not is_named or not 0 < servers <= MAX_SERVERS or not 0 < workers <= MAX_WORKERS:
        raise UsageError(
            "registration: a name of up to 64 letters, digits, '.', '_', '-'; a key of 32 bytes; 1 to "
            f"{MAX_SERVERS} servers; 1 to {MAX_WORKERS} workers"
        )
    if compress not in COMPRESSIONS:
        raise UsageError(f"registration: compress is {' or '.join(COMPRESSIONS)}, not {compress[:40]!r}")


def check_owner(row: ClientRow, uid: int, key: bytes) -> None:
    """Check that a registered job registers again. Raises UsageError where its owner or key is another one."""
    if row.uid != uid or not hmac.compare_digest(bytes.fromhex(row.key), key):
        raise UsageError(f"job {row.job} is registered already")
