"""Code that runs an engine: one driver, and the shells for threads and for an event loop."""
