"""The events of a ladder, in Redis and in the archive."""
