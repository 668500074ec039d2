"""Frames to figures: counting, TCP streams and messages' bytes; reads no device, socket or clock."""
