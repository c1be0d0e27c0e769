"""Stage rank: the order of the jobs. One file for each policy, `policies.py` lists them."""
