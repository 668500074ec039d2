"""The KNet project's comparison of Kafka clients (2024): the official Java client in the process against librdkafka."""
