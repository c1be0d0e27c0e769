"""The shares of users and accounts in Slurm's fair-share tree: at each level in proportion to those of the siblings.

The share of an association is the product of its parts of all levels up to the root, which is `NormShares` of Slurm's classic fair
share. A user has the sum of the shares of its associations.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.slurm_plugin.backends.slurm_rules import FairShare

_ROOT = "root"
Shares = dict[str, float]


def shares_of_accounts(tree: Sequence[FairShare]) -> Shares:
    """Return the share of each account, by name; {}: there is no tree."""
    parent = {one.account: one.parent for one in tree if one.uid is None}
    part = _parts(tree)
    return {account: _product(account, parent, part) for account in parent if account != _ROOT}


def shares_of_users(tree: Sequence[FairShare]) -> Shares:
    """Return the share of each user, by uid; {}: there is no tree."""
    parent = {one.account: one.parent for one in tree if one.uid is None}
    part, total, found = _parts(tree), _totals(tree), Shares()
    for one in tree:
        if one.uid is not None:
            own = one.raw / total[one.account] if total[one.account] else 0.0
            found[str(one.uid)] = found.get(str(one.uid), 0.0) + own * _product(one.account, parent, part)
    return found


def _above(one: FairShare) -> str:
    """Return the account in which the association has its shares."""
    return one.parent if one.uid is None else one.account


def _totals(tree: Sequence[FairShare]) -> Shares:
    """Return the raw shares of all siblings, by the account above them."""
    found = Shares()
    for one in tree:
        found[_above(one)] = found.get(_above(one), 0.0) + one.raw
    return found


def _parts(tree: Sequence[FairShare]) -> Shares:
    """Return the part of each account in the shares of its siblings."""
    total = _totals(tree)
    return {one.account: one.raw / total[one.parent] if total[one.parent] else 0.0 for one in tree if one.uid is None}


def _product(account: str, parent: dict[str, str], part: Shares) -> float:
    """Return the product of the parts of an account and of those above it, the root excepted."""
    found, seen = 1.0, set[str]()
    while account and account != _ROOT and account not in seen:
        seen.add(account)
        found *= part.get(account, 1.0)
        account = parent.get(account, "")
    return found
