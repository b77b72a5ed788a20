"""The bytes of a blob: its format, the graph in its model, and the process that compiles it for a device."""
