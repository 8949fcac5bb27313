"""The older remote read protocol: MS-MQQP 3.1, with the four methods of MS-MQMP 3.1.4 that it cannot do without."""
