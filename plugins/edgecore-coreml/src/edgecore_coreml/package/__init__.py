"""The files of a model: how they are packed into a blob, read, compiled by Apple's compiler, and described."""
