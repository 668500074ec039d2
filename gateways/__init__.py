"""From a protocol to Kafka."""
