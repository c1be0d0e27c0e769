"""Print which image tools work on this node: a process that `tiresias doctor` starts.

{name in messages: {"version": "" without the tool, "missing": why it does not work, ""}}
"""

from __future__ import annotations

import json
import sys

from tiresias.wrappers.images import image_place, option


def found() -> dict[str, dict[str, str]]:
    """Return version and obstacle of each tool."""
    kinds = {name: image_place.kind(tool) for tool, name in option.TOOLS.items()}
    return {name: {"version": kind.version(), "missing": kind.missing()} for name, kind in kinds.items()}


def main() -> int:
    """Print them as JSON."""
    print(json.dumps(found()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
