"""Servers that stand in for those that can't be had here."""
