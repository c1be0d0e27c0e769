"""How often slurmctld is called: the pace of the cycles, and figures about calls."""
