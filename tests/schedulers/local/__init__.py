"""The one-machine cluster, with real processes."""
