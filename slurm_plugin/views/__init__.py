"""Renderers: from the dictionary that the daemon publishes to what rich prints. They compute nothing and ask nobody."""
