"""Parts of `fuse_integers`: the parameters of quantized values, layers and average pools as integer operators."""
