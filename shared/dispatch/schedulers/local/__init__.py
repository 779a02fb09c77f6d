"""A one-machine cluster that runs a job's processes for real, and survives its supervisor."""
