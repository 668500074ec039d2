"""What vehicles do, and the link that their packets take."""
