"""Names that scripts of ExecuTorch use with XNNPACK; `executorch_modules` of the package lists them."""
