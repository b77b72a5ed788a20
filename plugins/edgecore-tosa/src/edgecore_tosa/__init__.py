"""TOSA for edgecore's backends: lowering of partitions, the file format, a quantizer and a simulator."""
