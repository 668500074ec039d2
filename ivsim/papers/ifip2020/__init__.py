"""The protocol paper of IFIP Networking 2020: its claims, decided by tests on what was measured here."""
