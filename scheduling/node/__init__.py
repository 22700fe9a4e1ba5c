"""The process: threads that feed the engine and carry out its effects."""
