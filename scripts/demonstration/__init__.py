"""The demo: a server of its own, real workers, and one program as match server, lobby and spectator."""
