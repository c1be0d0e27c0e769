"""How often slurmctld is called: the budget, who may spend it first, and the pace."""
