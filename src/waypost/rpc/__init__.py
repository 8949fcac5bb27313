"""Connection-oriented DCE/RPC without I/O: C706 chapters 9, 11 and 12, MS-RPCE 2.2.2 and 3.3."""
