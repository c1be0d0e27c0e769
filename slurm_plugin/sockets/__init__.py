"""The controller's sockets: requests of viewers, notifications of hooks, orders of administrators, and what each user may
see.
"""
