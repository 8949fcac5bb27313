"""Clients of the bulk interface: readers of ranges, readers with claims, writers with stages."""
