"""Who runs the work: one contract, one folder for each scheduler."""
