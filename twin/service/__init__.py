"""The fleet's twins for people and programs: HTTP API, stream of changes, page; it only reads Kafka."""
