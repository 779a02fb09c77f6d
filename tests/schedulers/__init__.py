"""The adapters, one folder each."""
