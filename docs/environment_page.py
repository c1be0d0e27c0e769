"""Writes the page of the environment variables from protocol/environment.py."""

from __future__ import annotations

from collections.abc import Iterator

from tiresias.protocol.environment import VARIABLES

HEAD = """# Environment variables

Each option of the controller's [configuration](configuration.md) has a variable of its own, which that page names. All other
variables of the programs are listed here. tsbatch fixes the variables of a submission in the job.

| variable | set by | read by | value |
|---|---|---|---|"""


def lines() -> Iterator[str]:
    """Yield the page in Markdown: one table, a row for each variable."""
    yield HEAD
    yield from (f"| `{each.name}` | {each.set_by} | {each.read_by} | {each.meaning} |" for each in VARIABLES)
