"""MS-MQQB 3.1 on one queue manager: what connections bring into its queues, and how its outgoing queues empty."""
