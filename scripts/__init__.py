"""What the Makefile calls: exports from the lock, and the closing line of the tests."""
