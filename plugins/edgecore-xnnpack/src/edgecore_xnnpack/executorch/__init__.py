"""Names that ExecuTorch scripts use with XNNPACK; `executorch_modules` of the package lists them."""
