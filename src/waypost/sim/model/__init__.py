"""A second queue manager, made of lists and dictionaries, that says what the first one must do.

It executes the operations of waypost.api.operations in memory and at once, and records what has to be durable
after each batch. It shares constants with the engine and nothing else: where the two differ, one
of them is wrong.
"""
