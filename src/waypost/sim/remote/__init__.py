"""Readers on other machines, in worlds of one queue manager: the real clients, over connections that fail."""
