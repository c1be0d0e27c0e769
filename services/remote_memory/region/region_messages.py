"""What a program asks the handler process of its region for: one byte, answered by a line of JSON."""

from __future__ import annotations

import struct

STATISTICS = b"s"
FORGET = b"f"  # followed by RANGE: these pages are zero from now on
RANGE = struct.Struct("=QQ")  # the first page, and how many
END = b"e"  # the program ends: print what was done
