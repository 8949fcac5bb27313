"""A queue manager as a program of its own: sockets, configuration and logs around the engine."""
