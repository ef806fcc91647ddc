"""Training scripts that know nothing of forerun, their environments and their data."""
