"""ONNX Runtime's QNN provider: requests in child processes, supported SoCs, and installation checks."""
