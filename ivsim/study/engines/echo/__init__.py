"""Echo cells: messages that return across the link, many cells at once on one open testbed."""
