"""The adapter on a real API server, in a namespace of its own."""
