"""Virtual clusters that guarantee affinity: tenants own cells of the topology tree (HiveD, OSDI 2020)."""
