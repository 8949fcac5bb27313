"""Care for the folder of a queue manager: verify that the store is whole, and salvage a damaged one."""
