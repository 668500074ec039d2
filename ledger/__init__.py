"""What every message due came to, and every figure that follows: a function of the files in a run's directory."""
