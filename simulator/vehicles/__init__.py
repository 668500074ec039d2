"""What a vehicle is made of: its drive, its signals, its first content."""
