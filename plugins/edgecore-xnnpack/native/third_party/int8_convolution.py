"""Extensions of XNNPACK's int8 convolutions, for kernels that support them (``qs8-c4-avx512vnni.c.in``).

The parameters of a kernel get further fields, which are zero for all other operators:

- The taps in a row of the window. Neighbouring pixels share most of the inputs of their windows; a kernel copies each
  row of the window once for all pixels of a tile.
- Joined taps. XNNPACK pads the inputs of each tap to a multiple of four. An image of 3 channels then takes 196 products
  instead of 147 for a window of 7x7, and the kernel gathers each tap by itself. If the taps are joined, the inputs of
  all taps follow one another, in the packed weights as well, and a kernel reads a row of the window at once.
- Padding that adds nothing: its zero point is -128, which is 0 for a kernel. A tile whose pixels have only padding at
  the first or the last taps skips these taps.
- A sum. The kernel adds another tensor to the products, after it rounded them to int8, with the arithmetic of XNNPACK's
  addition: the result has the bits of a convolution and an addition.
"""

from __future__ import annotations

from patch import Patch

_CONVOLUTION = "src/operators/convolution-nhwc.c"
_SUBGRAPH = "src/subgraph/convolution-2d.c"
_MAX_JOINED = 4608  # inputs that the kernels' buffer holds (CHUNK)


def _insert(path: str, before: str, new: str, after: str = "") -> Patch:
    """Insert `new` between two texts, which follow one another once in the file."""
    return Patch(path, before + after, before + new + after)


# At the end of the struct: contexts of other kernels hold only its first bytes.
_FIELDS = """    uint16_t window_taps;  // in a row of the window; 0: unknown
    bool joins_taps;
    bool skips_padding;  // padding adds nothing
    bool adds;
    ptrdiff_t sum_distance;  // from the output to the tensor that is added
    int32_t sum_multiplier;  // of the products without their zero point
    int32_t sum_other_multiplier;  // of the other tensor
    int32_t sum_bias;
    int32_t sum_shift;
    int16_t sum_zero_point;
    int16_t sum_min;
    int16_t sum_max;
"""
_UNION = """union xnn_qs8_qc8w_conv_minmax_params {
  struct {
    int16_t output_zero_point;
    int16_t output_min;
    int16_t output_max;
"""
_INIT = """size_t xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params(
  union xnn_qs8_qc8w_conv_minmax_params params[XNN_MIN_ELEMENTS(1)],
  int8_t output_zero_point,
  int8_t output_min,
  int8_t output_max)
{
"""
# Texts before the union of parameters in the contexts of GEMM, indirect GEMM, and the two forms of deconvolution.
_CONTEXTS = (
    "  void* fused_params;\n  // Parameters for fused activations.\n",
    "  const struct xnn_qd8_quantization_params* quantization_params;\n  // Parameters for fused activations.\n",
    "  uint32_t log2_csize;\n  struct xnn_hmp_gemm_ukernel ukernel;\n",
    "  // Parameters for dynamically quantized inputs.\n"
    "  const struct xnn_qd8_quantization_params* quantization_params;\n",
)
_PARAMETERS = [
    _insert("src/xnnpack/microparams.h", _UNION, _FIELDS),
    _insert("src/xnnpack/microparams.h", "#include <stddef.h>\n", "#include <stdbool.h>\n"),
    _insert("src/microparams-init.c", _INIT, "  memset(&params->fp32_scalar, 0, sizeof(params->fp32_scalar));\n"),
    *(
        _insert(
            "src/xnnpack/compute.h", context + "  union {\n", "    union xnn_qs8_qc8w_conv_minmax_params qs8_qc8w;\n"
        )
        for context in _CONTEXTS
    ),
    _insert(
        "src/xnnpack/config-types.h",
        "  uint8_t mr_packed;  // `mr` value used for packed left-hand operands.\n",
        "  bool is_extended;  // the kernels have our extensions of int8 convolutions\n",
    ),
]


def _choose(before: str) -> Patch:
    """Choose joined taps and skipped padding at the creation of a convolution."""
    return _insert(
        _CONVOLUTION,
        before
        + """    gemm_config->init.qs8_qc8w(&gemm_params,
      output_zero_point, output_min, output_max);
""",
        f"""    if (gemm_config->is_extended) {{
      const size_t inputs = (size_t) kernel_height * kernel_width * group_input_channels;
      gemm_params.fp32_scalar.skips_padding = input_zero_point == INT8_MIN;
      gemm_params.fp32_scalar.joins_taps =
        group_input_channels % 4 != 0 && inputs <= {_MAX_JOINED} && !(flags & XNN_FLAG_DEPTHWISE_CONVOLUTION);
      if (group_input_channels % 4 == 0 || gemm_params.fp32_scalar.joins_taps) {{
        gemm_params.fp32_scalar.window_taps = kernel_width;
      }}
    }}
""",
    )


_CONFIGURATION = (
    "  const struct xnn_gemm_config* gemm_config = xnn_choose_qs8_qc8w_gemm_config((size_t) kernel_height * kernel_width, "
    "group_input_channels, group_output_channels);\n"
    "  assert(gemm_config != NULL);\n\n"
    "  union xnn_qs8_qc8w_conv_minmax_params gemm_params;\n"
    "  if XNN_LIKELY(gemm_config->init.qs8_qc8w != NULL) {\n"
)
_PACKING = "  const struct xnn_qs8_packing_params packing_params = { .input_zero_point = input_zero_point, };\n\n"
_STRIDE = (
    "round_up_po2(group_input_channels, convolution_op->ukernel.igemm.kr * convolution_op->ukernel.igemm.sr) "
    "* kernel_size << log2_filter_element_size"
)
_JOINED_TAPS = [
    # The creations for weights with one scale and with a scale for each channel; they differ in what precedes.
    _choose(
        "    duplicated_requantization_scale[output_channel] = requantization_scale;\n  }\n\n"
        + _PACKING
        + _CONFIGURATION
    ),
    _choose("      return xnn_status_unsupported_parameter;\n    }\n  }\n\n" + _PACKING + _CONFIGURATION),
    # Weights are packed as those of a window with one tap, which has the inputs of all taps.
    _insert(
        _CONVOLUTION,
        "    size_t* zero_size)\n{\n",
        """  const bool joins_taps = gemm_config->is_extended && ukernel_type == xnn_microkernel_type_igemm
    && ((const union xnn_qs8_qc8w_conv_minmax_params*) gemm_params)->fp32_scalar.joins_taps;
  const bool skips_padding = gemm_config->is_extended && ukernel_type == xnn_microkernel_type_igemm
    && ((const union xnn_qs8_qc8w_conv_minmax_params*) gemm_params)->fp32_scalar.skips_padding;
  if (joins_taps) {
    group_input_channels *= kernel_size;
    kernel_size = 1;
  }
""",
        "  enum xnn_status status = xnn_status_out_of_memory;\n  const uint32_t nr = gemm_config->nr;\n",
    ),
    _insert(
        _CONVOLUTION,
        "      convolution_op->ukernel.igemm = (struct xnn_ukernel_igemm) {\n",
        "        .joins_taps = joins_taps,\n        .skips_padding = skips_padding,\n",
    ),
    _insert("src/xnnpack/operator.h", "struct xnn_ukernel_igemm {\n", "  bool joins_taps;\n  bool skips_padding;\n"),
    # Tiles that end with a row of the image skip more padding.
    Patch(
        _CONVOLUTION,
        "  struct xnn_hmp_igemm_ukernel igemm_ukernel = igemm_cases[mr - 1];\n\n  const size_t tiled_output_size",
        """  if (convolution_op->ukernel.igemm.skips_padding) {
    for (uint32_t rows = convolution_op->ukernel.igemm.mr; 2 * rows > convolution_op->ukernel.igemm.mr; rows--) {
      if (output_width % rows == 0 && igemm_cases[rows - 1].function[XNN_UARCH_DEFAULT] != NULL) {
        mr = rows;
        break;
      }
    }
  }

  struct xnn_hmp_igemm_ukernel igemm_ukernel = igemm_cases[mr - 1];

  const size_t tiled_output_size""",
    ),
    Patch(
        _CONVOLUTION,
        f"({_STRIDE})",
        "((convolution_op->ukernel.igemm.joins_taps\n"
        "        ? round_up_po2(group_input_channels * kernel_size, convolution_op->ukernel.igemm.kr)\n"
        "        : round_up_po2(group_input_channels, convolution_op->ukernel.igemm.kr * convolution_op->ukernel.igemm.sr)\n"
        "          * kernel_size) << log2_filter_element_size)",
    ),
]

_SUM = """
// Makes a convolution add another tensor to its products, of which it has the quantization. The output then has the
// quantization `sum`, and is limited to [sum_min, sum_max].
void xnn_create_sum_convolution2d_nhwc_qs8_qc8w(
    xnn_operator_t convolution_op,
    const struct xnn_quantization_params* product,
    const struct xnn_quantization_params* other,
    const struct xnn_quantization_params* sum,
    int8_t sum_min,
    int8_t sum_max)
{
  struct xnn_qs8_add_minmax_params add;
  xnn_init_qs8_add_minmax_scalar_params(&add, product, other, sum);
  union xnn_qs8_qc8w_conv_minmax_params* params = &convolution_op->params.qs8_qc8w_conv_minmax;
  params->fp32_scalar.adds = true;
  params->fp32_scalar.sum_multiplier = add.scalar.a_multiplier;
  params->fp32_scalar.sum_other_multiplier = add.scalar.b_multiplier;
  params->fp32_scalar.sum_bias = add.scalar.bias + add.scalar.a_multiplier * product->zero_point;
  params->fp32_scalar.sum_shift = add.scalar.shift;
  params->fp32_scalar.sum_zero_point = add.scalar.output_zero_point;
  params->fp32_scalar.sum_min = sum_min;
  params->fp32_scalar.sum_max = sum_max;
}

// Sets the address of the other tensor, after the set-up of the convolution.
void xnn_setup_sum_convolution2d_nhwc_qs8_qc8w(xnn_operator_t convolution_op, const int8_t* other)
{
  union xnn_qs8_qc8w_conv_minmax_params* params = convolution_op->ukernel.type == xnn_microkernel_type_gemm
    ? &convolution_op->context.gemm.gemm.gemm.params.qs8_qc8w
    : &convolution_op->context.igemm.igemm.params.qs8_qc8w;
  params->fp32_scalar.sum_distance = (ptrdiff_t) ((uintptr_t) other - (uintptr_t) convolution_op->output);
}
"""
_SETUP_CONVOLUTION = """enum xnn_status xnn_setup_convolution2d_nhwc_qs8_qc8w(
    xnn_operator_t convolution_op,
    void* workspace,
    const int8_t* input,
    int8_t* output)
{
  return setup_convolution2d_nhwc(
    convolution_op, xnn_operator_type_convolution_nhwc_qc8,
    workspace, input, output, /*quantization_params=*/NULL,
    /*log2_input_element_size=*/XNN_LOG2_SIZEOF_INT8_T);
}
"""
_DECLARED = """
void xnn_create_sum_convolution2d_nhwc_qs8_qc8w(
    xnn_operator_t convolution_op,
    const struct xnn_quantization_params* product,
    const struct xnn_quantization_params* other,
    const struct xnn_quantization_params* sum,
    int8_t sum_min,
    int8_t sum_max);

void xnn_setup_sum_convolution2d_nhwc_qs8_qc8w(xnn_operator_t convolution_op, const int8_t* other);

// A convolution with four inputs adds the fourth to its products.
static bool has_sum(const struct xnn_operator_data* opdata)
{
  return opdata->num_inputs == 4;
}

"""
_DEFINE_SUM = """

bool xnn_can_add_to_convolution_2d(size_t kernel_size, size_t input_channels, size_t output_channels)
{
  const struct xnn_gemm_config* config = xnn_choose_qs8_qc8w_gemm_config(kernel_size, input_channels, output_channels);
  return config != NULL && config->is_extended;
}

// Makes the node that was defined last, a convolution with a bias, add another value. The convolution's output has the
// quantization and the range of the sum; those of the products, as they were before the addition, are given here.
enum xnn_status xnn_add_to_convolution_2d(
  xnn_subgraph_t subgraph,
  uint32_t other_id,
  float product_scale,
  int32_t product_zero_point,
  float product_min,
  float product_max)
{
  struct xnn_node* node = &subgraph->nodes[subgraph->num_nodes - 1];
  if (node->type != xnn_node_type_convolution_2d || node->num_inputs != 3) {
    return xnn_status_invalid_parameter;
  }
  node->params.convolution_2d.product.scale = product_scale;
  node->params.convolution_2d.product.zero_point = product_zero_point;
  node->params.convolution_2d.product_min = product_min;
  node->params.convolution_2d.product_max = product_max;
  node->inputs[3] = other_id;
  node->num_inputs = 4;
  return xnn_status_success;
}
"""
_CREATED = """              weights_cache,
              &opdata->operator_objects[0]);
            break;
          }
          default:
            XNN_UNREACHABLE;
        }
        break;
      case xnn_datatype_quint8: {
"""
_CREATE_SUM = """              weights_cache,
              &opdata->operator_objects[0]);
            if (status == xnn_status_success && has_sum(opdata)) {
              const struct xnn_quantization_params other = {
                .scale = values[node->inputs[3]].quantization.scale,
                .zero_point = values[node->inputs[3]].quantization.zero_point,
              };
              xnn_create_sum_convolution2d_nhwc_qs8_qc8w(
                opdata->operator_objects[0], &node->params.convolution_2d.product, &other, &sum,
                xnn_qs8_quantize(node->activation.output_min, sum.scale, sum.zero_point),
                xnn_qs8_quantize(node->activation.output_max, sum.scale, sum.zero_point));
            }
            break;
"""
_QUANTIZATION = """            const float output_scale = values[output_id].quantization.scale;
            const int32_t output_zero_point = values[output_id].quantization.zero_point;
            const int8_t output_min = xnn_qs8_quantize(node->activation.output_min, output_scale, output_zero_point);
            const int8_t output_max = xnn_qs8_quantize(node->activation.output_max, output_scale, output_zero_point);
            status = xnn_create_convolution2d_nhwc_qs8_qc8w(
"""
_PRODUCT_QUANTIZATION = """            const struct xnn_quantization_params sum = {
              .scale = values[output_id].quantization.scale,
              .zero_point = values[output_id].quantization.zero_point,
            };
            const bool adds = has_sum(opdata);
            const float output_scale = adds ? node->params.convolution_2d.product.scale : sum.scale;
            const int32_t output_zero_point = adds ? node->params.convolution_2d.product.zero_point : sum.zero_point;
            const int8_t output_min = xnn_qs8_quantize(
              adds ? node->params.convolution_2d.product_min : node->activation.output_min, output_scale, output_zero_point);
            const int8_t output_max = xnn_qs8_quantize(
              adds ? node->params.convolution_2d.product_max : node->activation.output_max, output_scale, output_zero_point);
            status = xnn_create_convolution2d_nhwc_qs8_qc8w(
"""
_SETUP = """      return xnn_setup_convolution2d_nhwc_qs8_qc8w(
        opdata->operator_objects[0],
        opdata->workspace,
        input_data,
        output_data);
"""
_SETUP_SUM = """    {
      const enum xnn_status status = xnn_setup_convolution2d_nhwc_qs8_qc8w(
        opdata->operator_objects[0],
        opdata->workspace,
        input_data,
        output_data);
      if (status == xnn_status_success && has_sum(opdata)) {
        xnn_setup_sum_convolution2d_nhwc_qs8_qc8w(opdata->operator_objects[0], values[opdata->inputs[3]].data);
      }
      return status;
    }
"""
_SUMS = [
    _insert(_CONVOLUTION, _SETUP_CONVOLUTION, _SUM),
    _insert(_SUBGRAPH, '#include "pthreadpool.h"\n', _DECLARED),
    Patch(_SUBGRAPH, "  assert(node->num_inputs <= 3);\n", "  assert(node->num_inputs <= 4);\n"),
    _insert(
        "src/xnnpack/subgraph.h",
        "      size_t group_output_channels;\n",
        "      struct xnn_quantization_params product;  // if the convolution adds another value\n"
        "      float product_min;\n"
        "      float product_max;\n",
        "    } convolution_2d;\n",
    ),
    Patch(_SUBGRAPH, _QUANTIZATION, _PRODUCT_QUANTIZATION),
    Patch(_SUBGRAPH, _CREATED, _CREATE_SUM + _CREATED.split("            break;\n", 1)[1]),
    Patch(_SUBGRAPH, _SETUP, _SETUP_SUM),
    Patch(
        _SUBGRAPH,
        "  node->setup = setup_convolution_operator;\n\n  return xnn_status_success;\n};\n",
        "  node->setup = setup_convolution_operator;\n\n  return xnn_status_success;\n}\n" + _DEFINE_SUM,
    ),
    _insert(_SUBGRAPH, '#include "xnnpack/common.h"\n', '#include "xnnpack/config.h"\n'),
]

PATCHES = [*_PARAMETERS, *_JOINED_TAPS, *_SUMS]
