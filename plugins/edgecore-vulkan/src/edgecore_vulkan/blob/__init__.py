"""Write, read, describe and check blobs, the bytes of a compiled partition."""
