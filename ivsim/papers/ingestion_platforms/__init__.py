"""The thesis on ingestion platforms (Tallberg 2020): Kafka, Pulsar and Redis Streams."""
