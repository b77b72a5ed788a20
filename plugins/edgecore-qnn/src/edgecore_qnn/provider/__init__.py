"""ONNX Runtime's QNN provider: processes that ask it, the SoCs that it compiles for, and what is installed of it."""
