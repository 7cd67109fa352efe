"""Redis and nothing else: addresses, connections, scripts, keys, and what is stored under them."""
