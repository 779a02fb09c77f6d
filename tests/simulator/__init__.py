"""The simulator: its worlds, its seeds, its mutants and its stories."""
