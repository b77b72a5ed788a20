"""Elementwise functions of int8: products for AVX512, the lookup kernel for AVX512VBMI, and tables of the delegate."""

from __future__ import annotations

from patch import Kernel, Patch

_NAMES = ("vmul", "vmulc")
_LIKE = "src/qs8-%s/gen/qs8-%s-minmax-fp32-%s-u%d.c"

KERNELS = [
    Kernel(
        "src/edgecore/qs8-vmul-avx512skx.c.in",
        f"CONSTANT={int(name == 'vmulc')}",
        f"src/qs8-{name}/gen/qs8-{name}-minmax-fp32-avx512skx-u32.c",
        "src/qs8-vadd/gen/qs8-vadd-minmax-avx512skx-mul32-ld128-u16.c",
        "cmake/gen/avx512skx_microkernels.cmake",
    )
    for name in _NAMES
]


def _declare(name: str) -> Patch:
    def line(arch: str, isa: str, tile: int) -> str:
        return (
            f"XNN_UKERNEL_WITH_PARAMS(xnn_arch_x86_{arch}, xnn_qs8_{name}_minmax_fp32_ukernel__{isa}_u{tile}, {tile}, "
            "false, int8_t, union xnn_qs8_mul_minmax_params, xnn_init_qs8_mul_minmax_scalar_params)\n"
        )

    existing = line("avx", "avx_mul16_ld64", 16)
    added = line("avx512skx", "avx512skx", 32)
    return Patch(f"src/qs8-{name}/qs8-{name}-minmax-fp32.h", existing, existing + added)


def _select_products() -> Patch:
    def lines(isa: str, tile: int, indent: str) -> str:
        kernels = "".join(
            f"{indent}qs8_vmul_config.{field} = (xnn_vbinary_ukernel_fn) "
            f"xnn_qs8_{name}_minmax_fp32_ukernel__{isa}_u{tile};\n"
            for field, name in (("op_ukernel", "vmul"), ("opc_ukernel", "vmulc"), ("ropc_ukernel", "vmulc"))
        )
        init = f"{indent}qs8_vmul_config.init = (xnn_init_binary_params_fn) xnn_init_qs8_mul_minmax_scalar_params;\n"
        return kernels + init + f"{indent}qs8_vmul_config.element_tile = {tile};\n"

    old = "    if (hardware_config->use_x86_avx) {\n" + lines("avx_mul16_ld64", 16, "      ")
    new = (
        "    #if XNN_ENABLE_AVX512SKX\n"
        "      if (!XNN_PLATFORM_MOBILE && hardware_config->use_x86_avx512skx) {\n"
        + lines("avx512skx", 32, "        ")
        + "      } else\n    #endif\n"
    )
    return Patch("src/configs/binary-elementwise-config.c", old, new + old)


_UNARY = "src/operators/unary-elementwise-nc.c"
_SUBGRAPH = "src/subgraph/unary.c"
_CREATE = """static bool is_contiguous(xnn_operator_t op)
"""
_CREATE_TABLE = """// Creates an operator that replaces each byte by an entry of `table`.
enum xnn_status xnn_create_table_nc(const uint8_t table[256], uint32_t flags, xnn_operator_t* op_out)
{
  xnn_operator_t op = xnn_allocate_zero_simd_memory(sizeof(struct xnn_operator));
  if (op == NULL) {
    return xnn_status_out_of_memory;
  }
  op->type = xnn_operator_type_unary_elementwise;
  op->flags = flags;
  op->lut_config = xnn_init_x8_lut_config();
  op->lookup_table = xnn_allocate_simd_memory(256);
  if (op->lookup_table == NULL) {
    xnn_delete_operator(op);
    return xnn_status_out_of_memory;
  }
  memcpy(op->lookup_table, table, 256);
  op->state = xnn_run_state_invalid;
  *op_out = op;
  return xnn_status_success;
}

"""
_CREATE_UNARY = """  return xnn_create_unary_elementwise_nc(
    node->unary_operator,
"""
_DEFINE = """static enum xnn_status create_unary_operator(
"""
_END = """  node->create = create_unary_operator;
  node->reshape = reshape_unary_operator;
  node->setup = setup_unary_operator;

  return xnn_status_success;
}
"""
_DEFINE_TABLE = """
// Defines a node that replaces each byte of an 8-bit tensor by an entry of `table`, which must live until the runtime
// has been created.
enum xnn_status xnn_define_table(
  xnn_subgraph_t subgraph,
  uint32_t input_id,
  uint32_t output_id,
  const uint8_t table[256])
{
  const enum xnn_status status = xnn_define_unary(subgraph, xnn_unary_convert, NULL, input_id, output_id, 0);
  if (status == xnn_status_success) {
    subgraph->nodes[subgraph->num_nodes - 1].table = table;
  }
  return status;
}
"""

PATCHES = [
    *(_declare(name) for name in _NAMES),
    # XNNPACK computes products of int8 with vectors of 128 bits on every x86 processor.
    _select_products(),
    # XNNPACK's lookup kernel for AVX512VBMI was never selected, because the name of the option was wrong.
    Patch("src/configs/x8-lut-config.c", "    #if XNN_ENABLE_AVX256VBMI\n", "    #if XNN_ENABLE_AVX512VBMI\n"),
    # Units of work of 1 KB are too small for this kernel.
    Patch(_UNARY, "        const size_t block_size = 1024;\n", "        const size_t block_size = 8192;\n"),
    Patch(_UNARY, _CREATE, _CREATE_TABLE + _CREATE),
    Patch(
        "src/xnnpack/subgraph.h",
        "    enum xnn_unary_operator unary_operator;\n  };\n",
        "    enum xnn_unary_operator unary_operator;\n  };\n  const uint8_t* table;  // see xnn_define_table\n",
    ),
    Patch(
        _SUBGRAPH,
        _DEFINE,
        "enum xnn_status xnn_create_table_nc(const uint8_t table[256], uint32_t flags, xnn_operator_t* op_out);\n\n"
        + _DEFINE,
    ),
    Patch(
        _SUBGRAPH,
        _CREATE_UNARY,
        "  if (node->table != NULL) {\n"
        "    return xnn_create_table_nc(node->table, node->flags, &opdata->operator_objects[0]);\n"
        "  }\n\n" + _CREATE_UNARY,
    ),
    Patch(_SUBGRAPH, _END, _END + _DEFINE_TABLE),
]
