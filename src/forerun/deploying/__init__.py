"""From a plan to files that a person can read and keep, and to the job that runs with them."""
