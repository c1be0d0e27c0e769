"""A program with more memory than its cgroup: writes pages in random order and checks each against what it wrote.

python swapping.py MIB WRITES [FILE]

With FILE it continues to write until that file exists.
"""

from __future__ import annotations

import mmap
import random
import sys
from pathlib import Path

PAGE = 4096


def content(page: int, version: int) -> bytes:
    """Return the first bytes of a page."""
    return (page << 32 | version).to_bytes(8, "little")


def main(mib: int, writes: int, file: Path | None = None) -> None:
    """Write all pages, `writes` random ones again, and check all."""
    pages, chance = mib << 8, random.Random(7)
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    versions = [0] * pages
    for page in range(pages):
        memory[page * PAGE : page * PAGE + 8] = content(page, 0)
    print("filled", flush=True)
    done = 0
    while done < writes or (file and not file.exists()):
        page = chance.randrange(pages)
        assert memory[page * PAGE : page * PAGE + 8] == content(page, versions[page]), page
        versions[page] += 1
        memory[page * PAGE : page * PAGE + 8] = content(page, versions[page])
        done += 1
    for page in range(pages):
        assert memory[page * PAGE : page * PAGE + 8] == content(page, versions[page]), page
    print("checked", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
