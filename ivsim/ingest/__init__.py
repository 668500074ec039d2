"""The consumer behind a platform, which keeps the last hop of `--topology ingest`; it decodes no payload."""
