"""Hostile input for the decoders: what must hold (targets), where to start (seeds), the fuzzer itself (run, worker)."""
