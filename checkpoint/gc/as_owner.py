"""Work on a user's files with the user's own rights.

A network file system often refuses root (root_squash), and as root a mistake could concern files of anybody.
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from typing import Any

from tiresias.errors import TiresiasError, Unavailable


def as_owner(user: int, work: Callable[[], Any]) -> Any:
    """Return the result of `work`, made of JSON values. For root and another user, a child process with that user's rights works.

    Raises:
        Unavailable: `work` failed with this message, or the caller may not act for the user.
    """
    if user == os.geteuid():
        return _result(work)["result"]
    if os.geteuid() != 0:
        raise Unavailable(f"belongs to {user_name(user)}; run this as that user or as root")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run_as(user, work, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        raise Unavailable(f"the process of {user_name(user)} ended without a result")
    found = json.loads(text)
    if "error" in found:
        raise Unavailable(found["error"])
    return found["result"]


def _run_as(user: int, work: Callable[[], Any], pipe: int) -> None:
    """In the child: take the user's rights for good, work, write the result as JSON and end."""
    try:
        _become(user)
        text = json.dumps(_caught(work))
        with os.fdopen(pipe, "w") as out:
            out.write(text)
    finally:
        os._exit(0)


def _become(user: int) -> None:
    try:
        found = pwd.getpwuid(user)
    except KeyError:  # a user that was removed from the system
        os.setgroups([])
        os.setgid(user)
    else:
        os.initgroups(found.pw_name, found.pw_gid)
        os.setgid(found.pw_gid)
    os.setuid(user)


def _caught(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return _result(work)
    except (TiresiasError, OSError) as error:
        return {"error": str(error)}


def _result(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except OSError as error:
        raise Unavailable(f"{error.filename or 'its folder'}: {error.strerror or error}") from None


def user_name(user: int) -> str:
    """Return the name of a user, "user 1001" where the system has none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
