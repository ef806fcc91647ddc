"""The performance model: the fitted expression of one measured column, and what it says."""
