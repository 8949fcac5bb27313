"""Backups of a running queue manager, and their restore (ADR 32)."""
