"""Find the bytes that a micro-kernel of XNNPACK reads and writes, by executing only its address arithmetic.

`source` parses the kernel's C source. `values` and `writer` translate the statements that compute addresses, masks
and conditions to a Python function, and omit those that compute elements. The function runs on addresses that have no
memory behind them (`memory`), which records the range of the accesses to each buffer. So kernels for any instruction
set can be examined on any machine, and each range follows from the kernel's own loop conditions and masks. `calls`
makes the arguments that XNNPACK's operators would pass. Source code that the translation does not support raises
`NotUnderstood`, so no access is missed silently.

A sanitizer is no alternative: it checks only the kernels that this processor can run, and it reports each read past the
end of a buffer, although kernels are allowed to read the padding after a buffer.
"""
