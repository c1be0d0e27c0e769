"""The policies by their name in `policy.name`, as `stages.py` lists them.

An installed package adds to POLICIES: entry-point group `tiresias.policies`, a class without arguments or an object, with a method
`rank`.
"""

from __future__ import annotations

from tiresias.scheduler import stages
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.fair_policy import fair
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.registry import Registry

POLICIES: Registry[Policy] = stages.POLICIES
CLAIRVOYANT: Registry[Policy] = stages.CLAIRVOYANT


def policy_of(config: PolicyConfig) -> Policy:
    """Return the policy that a configuration names, between owners where they share the GPUs."""
    return with_owners(POLICIES[config.name], config)


def with_owners(policy: Policy, config: PolicyConfig) -> Policy:
    """Return the policy, between owners where they share the GPUs or their service ranks jobs."""
    return fair(policy) if config.counts_owners else policy
