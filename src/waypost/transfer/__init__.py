"""MS-MQQB 3: what passes between two queue managers."""
