"""Read and write the files of a Core ML model: pack them into a blob, compile them with Xcode, describe them."""
