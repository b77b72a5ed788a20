"""The header of blobs: its flatbuffer schema, and the same tables as dataclasses."""
