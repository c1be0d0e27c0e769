"""Files that contain a key or name one: they are this user's, and no other user can read them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError


def read_service_key(path: Path) -> bytes:
    """Read a key of 64 hexadecimal digits.

    Raises:
        UsageError: It is not there, is readable by others, or is no key.
    """
    text = private_text(path).strip()
    if len(text) != 64:
        raise UsageError(f"{path}: a key has 64 hexadecimal digits")
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise UsageError(f"{path}: a key has 64 hexadecimal digits") from error


def private_text(path: Path) -> str:
    """Return the content of a file of this user that no other user can read.

    Raises:
        UsageError: It cannot be read, or others can read or write it.
    """
    try:
        with path.open() as file:
            found = os.fstat(file.fileno())
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    if stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid not in {os.geteuid(), 0}:
        raise UsageError(f"{path}: other users can read or change it; it contains a key: chmod 600 {path}")
    return text


def private_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a private file.

    Raises:
        UsageError: It cannot be read, others can read or write it, or it is no JSON object.
    """
    try:
        content = json.loads(private_text(path))
    except ValueError as error:
        raise UsageError(f"{path}: no JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path}: no JSON object")
    return content
