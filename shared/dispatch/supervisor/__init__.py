"""Doing it: one pass over a job, one sweep over a cluster. Writes facts, never intents."""
