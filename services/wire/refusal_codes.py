"""The codes of Refused: what a client does about a refusal depends on them, not on the text."""

from __future__ import annotations

MOVED = "moved"  # the master copy is elsewhere, or is under another epoch: Locate, then repeat the request there
UNKNOWN = "unknown"  # no such tensor here, or not yet
FATAL = "fatal"  # the request is wrong, or the job is to end: repeating it does not help
