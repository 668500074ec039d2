"""Load tests: stages, thresholds and a word on the generator, on the one path that every run takes."""
