"""Simulated clusters: what a scheduler shows, beside what its processes really do."""
