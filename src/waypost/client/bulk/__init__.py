"""The bulk interface of a daemon: thousands of messages in one request (docs/bulk.md)."""
