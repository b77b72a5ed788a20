"""Write, read, describe and check blobs: the bytes of partitions that were compiled for the Vulkan delegate."""
