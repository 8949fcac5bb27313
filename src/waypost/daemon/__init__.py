"""The queue manager as a program: sockets, configuration and logs around the engine."""
