"""The bytes of a compiled partition: written and read, described, checked."""
