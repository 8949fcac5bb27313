"""One queue manager, assembled from its parts: the object that a daemon drives and the simulator tests."""
