"""The options of `tiresias simulate` on fairness between users and accounts."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.config import ATTAINED, FAIRNESS, PolicyConfig
from tiresias.scheduler.model import Floats
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_file import opened

_DEFAULT = PolicyConfig()


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of `simulate`."""
    configure_shares(group)
    group.add_argument(
        "--attained", type=types.one_of("--attained", ATTAINED), default=_DEFAULT.attained, metavar="WHOSE",
        help=f"{', '.join(ATTAINED)}: whose attained service ranks a job (default: {_DEFAULT.attained})",
    )  # fmt: skip
    group.add_argument(
        "--usage-half-life", type=types.number("--usage-half-life"), default=_DEFAULT.usage_half_life, metavar="SECONDS",
        help=f"the service of an owner counts half after it (default: {_DEFAULT.usage_half_life:g})",
    )  # fmt: skip
    group.add_argument(
        "--usage-period", type=types.number("--usage-period"), default=_DEFAULT.usage_period, metavar="SECONDS",
        help=f"between two counts of the service of owners (default: {_DEFAULT.usage_period:g})",
    )  # fmt: skip


def configure_shares(group: argparse._ArgumentGroup) -> None:
    """Add the options on what owners share and how."""
    group.add_argument(
        "--fairness", type=types.one_of("--fairness", FAIRNESS), default=_DEFAULT.fairness, metavar="KIND",
        help=f"{', '.join(FAIRNESS)}: owners that share the GPUs (default: {_DEFAULT.fairness})",
    )  # fmt: skip
    group.add_argument(
        "--shares", type=Path, metavar="FILE.csv",
        help="the shares of these users or accounts, header owner,share; an owner that is missing has the smallest share (default: "
        "all are equal)",
    )  # fmt: skip


def shares(args: argparse.Namespace) -> dict[str, float]:
    """Return the shares by owner that the file of --shares states; {}: there is no file.

    Raises:
        UsageError: A row of the file is impossible, or --shares is given without --fairness.
    """
    if args.shares is None:
        return {}
    if args.fairness == "none":
        raise UsageError("--shares has no meaning without --fairness users or accounts; add it, or leave --shares out")
    with opened(args.shares, lambda rows: None) as source:
        table = read_table(source, Layout(numbers={"share": _numbers}, words={"owner": cells.words}, closed=True))
    names = table.words["owner"]
    if again := next((name for name, count in Counter(names).items() if count > 1), None):
        raise UsageError(f"{args.shares}: owner {again[:40]!r} occurs twice; remove one")
    return dict(zip(names, table.numbers["share"].tolist(), strict=True))


def _numbers(column: Sequence[str]) -> Floats:
    values = cells.numbers(column)
    if not (values >= 0).all():
        raise ValueError("is not possible; write a share, a number of 0 or more")
    return values


def options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keys of `PolicyConfig` that the options set."""
    return {
        "fairness": args.fairness,
        "attained": args.attained,
        "usage_half_life": args.usage_half_life,
        "usage_period": args.usage_period,
    }
