"""Ingestion as a system under test: producer processes, a platform, consumer processes."""
