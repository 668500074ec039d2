"""Runs and studies from Python: what the command line calls too. The public names are those of `ivsim`."""
