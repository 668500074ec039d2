"""What shows that a link did what it was asked: probes, checks, the certificate."""
