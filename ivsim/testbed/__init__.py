"""The servers and processes of one run, each owned by the run that started it; measures nothing."""
