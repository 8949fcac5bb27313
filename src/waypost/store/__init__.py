"""Durable state: the store port, its records, the LMDB engine and the in-memory twin."""
