"""Readers on other hosts, in simulations of one queue manager: the real clients, over connections that fail."""
