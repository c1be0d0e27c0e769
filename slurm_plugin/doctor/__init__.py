"""Checks of `tiresias doctor` before the controller manages a cluster. Each file checks one area and returns findings."""
