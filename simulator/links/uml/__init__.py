"""The router in a user-mode Linux: where the host's own kernel has no netem."""
