"""What vehicles do, and the road their packets take."""
