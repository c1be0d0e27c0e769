"""The key of a job: derived from the service's key, so that each donor can compute it and no job can compute another one's."""

from __future__ import annotations

import hashlib
import hmac


def job_key(service_key: bytes, job: str) -> bytes:
    """Return the 32 bytes of a job's key."""
    return hmac.new(service_key, f"tiresias remote memory 1|{job}".encode(), hashlib.sha256).digest()
