"""Read the configuration as the controller would, and print every value with its source, or the first mistake.

examples:
  tiresias check-config                      /etc/tiresias/tiresias.toml, its conf.d and the environment
  tiresias check-config my.toml --json
  tiresias check-config etc/presets/optimus.toml      a preset alone: drf, elastic, hived, las, optimus, tetris, tiresias
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tiresias.slurm_plugin.cluster.partition_pools import check_plugins
from tiresias.slurm_plugin.commands.terminal import console, print_json
from tiresias.slurm_plugin.config import DEFAULT, Loaded, VirtualClusterConfig, load
from tiresias.slurm_plugin.views.text import printable

_LONGEST = 300  # cells of a value


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")
    parser.add_argument("--json", action="store_true", help='{"KEY": {"value": ..., "source": "..."}}; inf as text')


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    loaded = load(args.file, {})
    check_plugins(loaded.config)
    if args.json:
        print_json(
            {key: {"value": _plain(loaded.value(key)), "source": source} for key, source in loaded.sources.items()}
        )
    else:
        console().print(_table(loaded))
    return 0


def _table(loaded: Loaded) -> Table:
    table = Table(box=None, header_style="bright_black", padding=(0, 2, 0, 0))
    table.add_column("key", no_wrap=True)
    for title in ("value", "from"):
        table.add_column(title, overflow="fold")
    for key, source in loaded.sources.items():
        style = "" if source == DEFAULT else "bold"
        for value in _texts(loaded.value(key)):
            table.add_row(Text(key, style), Text(value, style), Text(printable(source, _LONGEST), style))
    return table


def _texts(value: Any) -> list[str]:
    """Return a value as it is written in the file; of virtual clusters one text each."""
    several = isinstance(value, tuple) and value and all(isinstance(each, VirtualClusterConfig) for each in value)
    return [printable(toml(each), _LONGEST) for each in (value if several else (value,))]


def toml(value: Any) -> str:
    """Return `value` as it is written in the file."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, str | Path):
        text = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return str(value)


def _plain(value: Any) -> Any:
    """Return `value` without paths, tuples and infinities, which JSON lacks."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Path | VirtualClusterConfig) or (isinstance(value, float) and math.isinf(value)):
        return str(value)
    return value
