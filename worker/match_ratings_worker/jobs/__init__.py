"""What arq runs."""
