"""The demo: a stack of its own, three jobs, and their histories as a person would read them."""
