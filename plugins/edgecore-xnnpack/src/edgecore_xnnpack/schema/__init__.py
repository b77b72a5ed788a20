"""The format of XNNPACK graphs in a blob: a flatbuffer schema, and dataclasses of its tables."""
