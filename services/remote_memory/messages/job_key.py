"""The key of a job: derived from the service's key, so that each donor can compute it and no job can compute another one's.

The name of a job whose key is for its owner contains the owner's uid: 812.uid1000. So the key belongs to job and user.
"""

from __future__ import annotations

import hashlib
import hmac
import re

_OWNED = re.compile(r"[^.]+\.uid(\d{1,10})")


def job_key(service_key: bytes, job: str) -> bytes:
    """Return the 32 bytes of a job's key."""
    return hmac.new(service_key, f"tiresias remote memory 1|{job}".encode(), hashlib.sha256).digest()


def owned_name(job: str, uid: int) -> str:
    """Return the name of a job of a user."""
    return f"{job}.uid{uid}"


def owner_of_name(name: str) -> int | None:
    """Return the uid of a job's owner; None where its key is not for its owner."""
    found = _OWNED.fullmatch(name)
    return int(found[1]) if found else None
