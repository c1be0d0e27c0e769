"""Whether this kernel and this user can have a region: userfaultfd, and what system calls do with its pages."""

from __future__ import annotations

import os

from tiresias.errors import Unavailable
from tiresias.services.remote_memory.region.page_accesses import are_accesses_known
from tiresias.services.remote_memory.region.userfault import open_userfault, reaches_system_calls


def require_userfault() -> None:
    """Check that this user can have a userfaultfd.

    Raises:
        Unavailable: It cannot; one line with the cure.
    """
    os.close(open_userfault())


def region_problem() -> str:
    """Return why this user cannot have a region here, in one line; "" where it can."""
    try:
        require_userfault()
    except Unavailable as error:
        return str(error)
    return ""


def region_ability() -> str:
    """Return what programs of this user can have here, in one line."""
    if problem := region_problem():
        return f"this user's programs cannot have a region: {problem}"
    calls = (
        "system calls wait for its pages"
        if reaches_system_calls()
        else "system calls other than transfers fail on pages that are not resident: "
        "let users read /dev/userfaultfd, or set vm.unprivileged_userfaultfd=1"
    )
    hot = (
        "" if are_accesses_known() else "; its hot pages are not known: /proc/PID/pagemap does not report mapped pages"
    )
    return f"this user's programs can have a region; {calls}{hot}"
