"""MS-MQQB 3.1 on one queue manager: messages from connections into its queues, and from outgoing queues to others."""
