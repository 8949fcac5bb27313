"""Maintenance of the folder of a queue manager: verify its store, and salvage a damaged one."""
