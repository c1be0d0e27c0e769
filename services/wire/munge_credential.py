"""Munge credentials: the manager receives a job's key in one that only the service account can decode, and learns the sender's uid.

`munge --restrict-uid=UID` encrypts the key for the service account; munged itself certifies the sender. A credential is accepted
once, and for a few minutes (its TTL).
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


def encode_credential(payload: bytes, service_uid: int) -> str:
    """Return a credential with a payload that only the service account can read.

    Raises:
        Unavailable: munged does not answer.
    """
    return _call(["munge", f"--restrict-uid={service_uid}"], payload).decode().strip()


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
