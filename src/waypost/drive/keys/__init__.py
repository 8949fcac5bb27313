"""Keys and certificates: the key folder, the work with RSA keys, and the processes that do it."""
