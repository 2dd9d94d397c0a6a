"""What a container under admission may hold, and what may still come."""
