"""Networks of simulated clusters: servers, switches and the links between them. Pure descriptions; one file for each topology."""
