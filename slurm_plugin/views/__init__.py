"""Renderers from the published status dictionary to rich's renderables: pure functions of their arguments."""
