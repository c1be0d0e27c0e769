"""Cursors of history pages: where the next page begins, encrypted with a secret of this process.

A cursor is text that only this controller can make: base64 of a nonce, the encrypted position, and a code over both and the
user (HMAC-SHA256). It is refused if it was changed, if another user presents it, and after a restart of the controller.
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
from tiresias.slurm_plugin.state.journal_history import HistoryPosition

NONCE_BYTES = 16  # bytes
CODE_BYTES = hashlib.sha256().digest_size
MAX_CURSOR_CHARACTERS = 2048  # characters of a cursor


class Cursors:
    """Makes and reads cursors."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def seal(self, place: HistoryPosition, uid: int) -> str:
        """Return the cursor of a position for a user."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + self._mask(nonce, json.dumps(place).encode())
        return base64.urlsafe_b64encode(sealed + self._code(sealed, uid)).decode()

    def place(self, cursor: object, uid: int) -> HistoryPosition:
        """Return the position of a cursor.

        Raises:
            TiresiasError: this controller did not make the cursor for this user.
        """
        try:
            whole = (
                base64.urlsafe_b64decode(cursor)
                if isinstance(cursor, str) and len(cursor) <= MAX_CURSOR_CHARACTERS
                else b""
            )
        except (binascii.Error, ValueError):
            whole = b""
        sealed, code = whole[:-CODE_BYTES], whole[-CODE_BYTES:]
        if len(sealed) <= NONCE_BYTES or not hmac.compare_digest(code, self._code(sealed, uid)):
            raise TiresiasError("the cursor is from another controller; start again from the first page")
        over, key = json.loads(self._mask(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]))
        return HistoryPosition(over, key)

    def _code(self, sealed: bytes, uid: int) -> bytes:
        return hmac.digest(self._secret, b"code %d " % uid + sealed, "sha256")

    def _mask(self, nonce: bytes, text: bytes) -> bytes:
        """Combine `text` with a key stream; applied twice it returns `text`."""
        return bytes(one ^ other for one, other in zip(text, self._stream(nonce, len(text)), strict=False))

    def _stream(self, nonce: bytes, length: int) -> Iterator[int]:
        for block in range(math.ceil(length / CODE_BYTES)):
            yield from hmac.digest(self._secret, b"mask %d " % block + nonce, "sha256")
