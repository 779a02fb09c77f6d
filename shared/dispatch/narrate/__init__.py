"""The record as people read it: its history as a table, and why it stands as it does. Pure."""
