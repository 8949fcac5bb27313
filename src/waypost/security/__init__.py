"""Access checks, signatures, encryption and certificates: MS-MQMQ 2.2.20.6 and 2.5, MS-MQQB 3.1.5.8.3 and 3.1.7.1."""
