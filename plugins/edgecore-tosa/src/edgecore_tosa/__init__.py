"""TOSA for backends of edgecore: lowering of partitions, the file format, a quantizer and a simulator."""
