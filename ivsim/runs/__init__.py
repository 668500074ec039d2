"""One run, from its first check to its report."""
