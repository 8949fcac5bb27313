"""MS-MQQB 3: the protocol between two queue managers."""
