"""MQTT 5 and 3.1.1, both ends."""
