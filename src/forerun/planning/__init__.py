"""From a request and an infrastructure to the best configuration, with reasons."""
