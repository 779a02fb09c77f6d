"""Simulated worlds, faults and checkers that drive the real protocol; not part of the layer."""
