"""Batches of records on their way to Kafka: how they are made, what they cost in time, and which setting is best."""
