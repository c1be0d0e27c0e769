"""The policies by their name in `policy.name`, as `stages.py` lists them.

An installed package adds to POLICIES: entry-point group `tiresias.policies`, a class without arguments or an object, with a method
`rank`.
"""

from __future__ import annotations

from tiresias.scheduler import stages
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.registry import Registry

POLICIES: Registry[Policy] = stages.POLICIES
CLAIRVOYANT: Registry[Policy] = stages.CLAIRVOYANT
