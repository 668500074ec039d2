"""Kafka through other client libraries than librdkafka: pure Python, asyncio, and the official Java client, embedded or beside."""
