"""One queue manager out of its parts: the object that a daemon drives and the simulator tests."""
