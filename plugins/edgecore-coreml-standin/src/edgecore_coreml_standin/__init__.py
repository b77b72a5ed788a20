"""A stand-in for Core ML on other systems, for tests; nothing chooses it but who asks for it by name."""
