"""Where a message goes next: MS-MQQB 3.1.7.4 and 3.1.7.5, and MS-MQBR."""
