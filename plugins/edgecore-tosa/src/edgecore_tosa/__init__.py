"""Support TOSA (Arm's operator set for NPUs) in edgecore's backends: lowering, file format, quantizer, simulator."""
