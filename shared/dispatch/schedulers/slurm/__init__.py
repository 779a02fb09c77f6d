"""Slurm through its REST API: pure reading and writing of its JSON, and a thin client."""
