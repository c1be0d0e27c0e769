"""Preemption, renewal, start and release as one transition table, and the engine that executes it.

transition_table.py has the rows; preempting.py, handover.py, starting.py and releasing.py have the operations that they name.
"""
