"""CoAP, both ends."""
