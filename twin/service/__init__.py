"""The fleet's twins for people and programs: an HTTP API, a stream of changes and a page; it reads Kafka and writes nothing."""
