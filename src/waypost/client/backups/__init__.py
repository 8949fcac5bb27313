"""Backups of a running queue manager, and what is made of them (ADR 32)."""
