"""From Kafka to state and figures."""
