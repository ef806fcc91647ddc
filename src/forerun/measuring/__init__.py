"""Which runs to make, and making them."""
