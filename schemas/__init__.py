"""What crosses a process boundary; imports nothing of ours."""
