"""Cursors of the pages of the past: where the next page begins, sealed by a secret of this process.

A cursor is text that only this controller makes: base64 of a nonce, the sealed place, and a code of both and of the user
(HMAC-SHA256). It is refused where it was changed, where another user got it, and after a restart of the controller.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import math
import secrets
from collections.abc import Iterator

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.state.journal import Place

_NONCE = 16  # bytes
_CODE = hashlib.sha256().digest_size
LONGEST = 2048  # characters of a cursor


class Cursors:
    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def seal(self, place: Place, uid: int) -> str:
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + self._mask(nonce, json.dumps(place).encode())
        return base64.urlsafe_b64encode(sealed + self._code(sealed, uid)).decode()

    def place(self, cursor: object, uid: int) -> Place:
        """Raises TiresiasError for a cursor that this controller did not make for this user."""
        try:
            whole = base64.urlsafe_b64decode(cursor) if isinstance(cursor, str) and len(cursor) <= LONGEST else b""
        except (binascii.Error, ValueError):
            whole = b""
        sealed, code = whole[:-_CODE], whole[-_CODE:]
        if len(sealed) <= _NONCE or not hmac.compare_digest(code, self._code(sealed, uid)):
            raise TiresiasError(
                "this page of the history was asked of another controller; ask again from the first page"
            )
        over, key = json.loads(self._mask(sealed[:_NONCE], sealed[_NONCE:]))
        return Place(over, key)

    def _code(self, sealed: bytes, uid: int) -> bytes:
        return hmac.digest(self._secret, b"code %d " % uid + sealed, "sha256")

    def _mask(self, nonce: bytes, text: bytes) -> bytes:
        """`text` with a key stream over it; the same again gives `text` back."""
        return bytes(one ^ other for one, other in zip(text, self._stream(nonce, len(text)), strict=False))

    def _stream(self, nonce: bytes, length: int) -> Iterator[int]:
        for block in range(math.ceil(length / _CODE)):
            yield from hmac.digest(self._secret, b"mask %d " % block + nonce, "sha256")
