"""The rating worker: claims finished matches from Redis, rates both players, publishes the changes."""
