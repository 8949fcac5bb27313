"""The vocabulary that every surface shares: names, operations and their answers, without I/O."""
