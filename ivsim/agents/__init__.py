"""Senders of a run on other machines: the agent there, the coordinator's end of it here, and the clocks of both."""
