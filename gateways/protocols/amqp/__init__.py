"""AMQP 0-9-1, both ends."""
