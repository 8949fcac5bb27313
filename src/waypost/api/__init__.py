"""The common vocabulary of all interfaces: names, operations and their answers, without I/O."""
