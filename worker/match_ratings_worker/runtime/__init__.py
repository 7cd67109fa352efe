"""One worker process."""
