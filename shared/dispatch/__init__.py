"""Dispatch: a durable, event-sourced record of every training job, and its supervision."""
