"""Looking after the folder of a queue manager: is everything whole, and what can be brought out of it if not."""
