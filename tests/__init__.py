"""The tests of dispatch."""
