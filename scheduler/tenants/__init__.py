"""Stages of tenants: what their virtual clusters own in the topology of a cluster, and how it is shared."""
