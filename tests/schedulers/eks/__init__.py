"""The adapter of Kubernetes: against recordings of a real one, and against a fake held to them."""
