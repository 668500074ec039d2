"""The command; the only package that knows every part."""
