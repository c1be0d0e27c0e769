"""Munge credentials: munged certifies the uid of their sender.

The parameter service's manager receives a job's key in one that only the service account can decode (`munge --restrict-uid=UID`).
A client of remote memory proves its user with one whose payload belongs to its connection. A host accepts a credential
once, for a few minutes (its TTL).
"""

from __future__ import annotations

import re
import subprocess

from tiresias.errors import TiresiasError, Unavailable, one_line

MAX_CREDENTIAL_BYTES = 8192
CALL_TIMEOUT_S = 10.0
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")
_UID = re.compile(r"^UID:\s+\S+\s+\((\d+)\)$", re.MULTILINE)


class CredentialRefused(TiresiasError):
    """The credential is none, is not for this account, has expired, or was used before."""


def encode_credential(payload: bytes, service_uid: int | None = None) -> str:
    """Return a credential.

    Args:
        payload: Its content.
        service_uid: The only user that can decode it; None: each user of hosts with this munge key.

    Raises:
        Unavailable: munged does not answer.
    """
    restricted = [] if service_uid is None else [f"--restrict-uid={service_uid}"]
    return _call(["munge", *restricted], payload).decode().strip()


def decode_credential(credential: str) -> tuple[int, bytes]:
    """Return the sender's uid and the payload.

    Raises:
        CredentialRefused: It is not accepted.
    """
    if len(credential) > MAX_CREDENTIAL_BYTES or not _CREDENTIAL.fullmatch(credential):
        raise CredentialRefused("this is no munge credential")
    try:
        printed = _call(["unmunge"], credential.encode())
    except Unavailable as error:
        raise CredentialRefused(str(error)) from None
    head, _, payload = printed.partition(b"\n\n")
    found = _UID.search(head.decode("utf-8", "replace"))
    if found is None:
        raise CredentialRefused("unmunge reports no uid of the sender")
    return int(found[1]), payload


def _call(command: list[str], content: bytes) -> bytes:
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=CALL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {one_line(error)}") from None
    if done.returncode:
        raise Unavailable(f"{command[0]}: {one_line(done.stderr.decode('utf-8', 'replace').strip())}")
    return done.stdout
