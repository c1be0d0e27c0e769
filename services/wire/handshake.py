"""The keyed handshake: both sides prove by HMAC-SHA256 over two fresh nonces that they have the key, and neither sends it.

    client -> server   Hello(identity, nonce_c)
    server -> client   Challenge(nonce_s, protect, HMAC(key, "server" | protect | nonce_c | nonce_s | identity))
    client -> server   Proof(HMAC(key, "client" | protect | nonce_c | nonce_s | identity))
    server -> client   Accepted

`protect` is what the server's configuration requires for the frames that follow: "none", or "mac" (frame_guard.py). It is part of
both proofs: a relay between the two cannot remove it.

A server answers an identity without a key by a random key, so that the answer does not show which jobs exist.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from tiresias.errors import TiresiasError

KEY_BYTES = 32
_NONCE = re.compile(r"[0-9a-f]{64}")


class NotAuthenticated(TiresiasError):
    """The peer has not proved that it has the key."""


def new_nonce() -> str:
    """Return 64 random hexadecimal digits."""
    return secrets.token_hex(32)


def proof_of(key: bytes, side: str, identity: str, client_nonce: str, server_nonce: str, protect: str = "none") -> str:
    """Return what a side proves the key with.

    Raises:
        NotAuthenticated: A nonce that is not 64 hexadecimal digits.
    """
    if not (_NONCE.fullmatch(client_nonce) and _NONCE.fullmatch(server_nonce)):
        raise NotAuthenticated("a malformed nonce")
    text = "|".join(("tiresias service 2", side, protect, client_nonce, server_nonce, identity))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def binding_of(client_nonce: str, server_nonce: str) -> str:
    """Return 64 hexadecimal digits that belong to one connection: what names them cannot be used on another one."""
    return hashlib.sha256(f"tiresias connection 1|{client_nonce}|{server_nonce}".encode()).hexdigest()


def check_proof(expected: str, given: str) -> None:
    """Compare two proofs in constant time.

    Raises:
        NotAuthenticated: They differ.
    """
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise NotAuthenticated("the peer does not have the key: wrong key, or the job is not known there")
