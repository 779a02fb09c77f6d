"""Where records are kept: the contracts, and the stores that keep them."""
