"""The XNNPACK delegate's flatbuffer."""
