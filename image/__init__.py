"""What belongs to the container image, beside the Dockerfile."""
