"""Replay of recorded decisions on virtual clusters: events of HiveD's own implementation, compared one by one."""
