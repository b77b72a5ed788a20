"""The check of what XNNPACK's kernels touch past their buffers' ends: small sources written here, and the real ones."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "native" / "third_party"


@pytest.fixture
def padding(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    import padding as module

    yield module
    for name in set(sys.modules) - before:
        if name in ("padding", "series", "generate", "get_xnnpack") or name.split(".")[0] == "footprint":
            del sys.modules[name]


class Sources:
    """A library of one table for x86-64, written under `root`."""

    def __init__(self, root: Path, extra_bytes: int = 16, quantization_params: int = 15) -> None:
        self.root = root
        self.rows: list[str] = []
        for folder in ("include", "src/xnnpack", "src/configs", "src/kernels", "cmake/gen"):
            (root / folder).mkdir(parents=True)
        (root / "include/xnnpack.h").write_text(
            "#if XNN_ARCH_HEXAGON\n#define XNN_EXTRA_BYTES 128\n#else\n"
            f"#define XNN_EXTRA_BYTES {extra_bytes}\n#endif\n"
            f"#define XNN_EXTRA_QUANTIZATION_PARAMS {quantization_params}\n"
        )
        (root / "src/xnnpack/common.h").write_text(
            "#if XNN_ARCH_X86 || XNN_ARCH_X86_64\n#define XNN_MAX_SIMD_SIZE 64\n#else\n"
            "#define XNN_MAX_SIMD_SIZE 16\n#endif\n"
        )

    def add(self, name: str, parameters: str, body: str, fields: str = "", index: str = "") -> None:
        """A kernel in a file of its own, selected by the table with `fields`."""
        (self.root / "src/kernels" / f"{name}.c").write_text(f"void {name}(\n{parameters})\n{{\n{body}\n}}\n")
        self.rows.append(f"    config{index} = ({name});\n{fields}")
        files = " ".join(f"src/kernels/{path.name}" for path in sorted((self.root / "src/kernels").iterdir()))
        (self.root / "cmake/gen/x_microkernels.cmake").write_text(f"SET(PROD_X_MICROKERNEL_SRCS\n  {files})\n")
        table = "#if XNN_ARCH_X86_64\n" + "".join(f"  {{\n{row}  }}\n" for row in self.rows) + "#endif\n"
        (self.root / "src/configs/a-config.c").write_text(table)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path / "stock")


GEMM = (
    "size_t mr, size_t nc, size_t kc, const int8_t* restrict a, size_t a_stride, const void* restrict w,\n"
    "float* restrict c, size_t cm_stride, size_t cn_stride, const union xnn_f32_minmax_params params[restrict 1],\n"
    "const struct xnn_qd8_quantization_params quantization_params[restrict 1]"
)


def gemm(
    rows: int, inputs: int = 8, store: str = "_mm_mask_storeu_ps(c, mask, sums)", load: str = "loadu_si128"
) -> str:
    """The body of a product with 4 columns, that takes `inputs` inputs at a time and reads `rows` parameters."""
    reads = "".join(
        f"sum += quantization_params[{row}].zero_point;\nscale += quantization_params[{row}].inv_scale;\n"
        for row in range(rows)
    )
    return f"""
  kc = round_up_po2(kc, {inputs});
  int32_t sum = 0;
  float scale = 0.0f;
  do {{
    {reads}
    w = (const int32_t*) w + 4;
    for (size_t k = 0; k < kc; k += {inputs}) {{
      for (size_t row = 0; row < mr; row++) {{
        const __m128i va = _mm_loadl_epi64((const __m128i*) (a + row * a_stride + k));
      }}
      for (size_t i = 0; i < {inputs}; i += 4) {{
        const __m128i vw = _mm_{load}((const __m128i*) w);
        w = (const int8_t*) w + 16;
      }}
    }}
    const __m128 scales = _mm_loadu_ps((const float*) w);
    const __m128 biases = _mm_loadu_ps((const float*) w + 4);
    w = (const float*) w + 8;
    const __mmask8 mask = _cvtu32_mask8((UINT32_C(1) << min(nc, 4)) - 1);
    {store};
    c = (float*) ((uintptr_t) c + cn_stride);
    nc = doz(nc, 4);
  }} while (nc != 0);"""


def plant_gemm(sources: Sources, rows: int, columns: int = 4, **changes: object) -> str:
    name = f"xnn_qd8_f32_qc8w_gemm_minmax_ukernel_{rows}x4c8__avx512vl"
    fields = f"    config.mr = {rows};\n    config.nr = {columns};\n    config.log2_kr = 3;\n"
    sources.add(name, GEMM, gemm(rows, **changes), fields, f".gemm[XNN_MR_TO_INDEX({rows})]")  # type: ignore[arg-type]
    return name


UNARY = "size_t batch, const float* input, float* output, const struct xnn_f32_default_params params[restrict 1]"


def unary(tail: str) -> str:
    return f"""
  for (; batch >= 4 * sizeof(float); batch -= 4 * sizeof(float)) {{
    const __m128 v = _mm_loadu_ps(input);
    input += 4;
    _mm_storeu_ps(output, v);
    output += 4;
  }}
  if XNN_UNLIKELY(batch != 0) {{
    {tail}
  }}"""


MASKED = """static const int32_t mask_table[6] = {-1, -1, -1, 0, 0, 0};
    const __m128i mask = _mm_loadu_si128((const __m128i*) ((uintptr_t) &mask_table[3] - batch));
    const __m128 v = _mm_maskload_ps(input, mask);
    _mm_maskstore_ps(output, mask, v);"""
ONE_BY_ONE = "do { *output++ = *input++; batch -= sizeof(float); } while (batch != 0);"


def plant_unary(sources: Sources, tail: str) -> str:
    name = "xnn_f32_vabs_ukernel__sse2_u4"
    sources.add(name, UNARY, unary(tail))
    return name


DEPTHWISE = (
    "size_t channels, size_t output_width, const float** input, const float* weights, float* output,\n"
    "intptr_t input_stride, size_t output_increment, size_t input_offset, const float* zero,\n"
    "const union xnn_f32_minmax_params params[restrict 1]"
)


def depthwise(taps: int = 3, weights: int = 4, step: int = 4) -> str:
    rows = "".join(
        f"const float* i{tap} = input[{tap}];\nif XNN_UNPREDICTABLE(i{tap} != zero) {{ i{tap} += input_offset; }}\n"
        for tap in range(taps)
    )
    reads = "".join(f"const __m128 v{tap} = _mm_loadu_ps(i{tap});\ni{tap} += 4;\n" for tap in range(taps))
    return f"""
  do {{
    {rows}
    const float* w = weights;
    size_t c = channels;
    for (; c != 0; c = doz(c, {step})) {{
      {reads}
      const __m128 k = _mm_loadu_ps(w);
      w += {weights} * 4;
      for (size_t i = 0; i < min(c, 4); i++) {{
        *output++ = 0.0f;
      }}
    }}
  }} while (--output_width != 0);"""


# ---- what is right


def test_kernels_that_keep_within_their_buffers_pass(padding: ModuleType, sources: Sources) -> None:
    plant_gemm(sources, 16)
    plant_unary(sources, MASKED)
    sources.add("xnn_f32_dwconv_minmax_ukernel_3p4c__sse", DEPTHWISE, depthwise())
    findings = {(f.kernel.split("_ukernel")[0], f.buffer, f.access): f for f in padding.survey(sources.root)}
    gemm_of = "xnn_qd8_f32_qc8w_gemm_minmax"
    assert findings[gemm_of, "quantization_params", "read"].bytes == 15 * 8
    assert findings[gemm_of, "quantization_params", "read"].provided == 15 * 8
    assert findings[gemm_of, "a", "read"].bytes == 7  # 8 inputs at a time, of which one is there
    assert findings[gemm_of, "w", "read"].bytes == 0
    assert findings[gemm_of, "c", "write"].bytes == 0
    assert findings["xnn_f32_vabs", "input", "read"].bytes == 0
    assert findings["xnn_f32_dwconv_minmax", "pixel", "read"].bytes == 12
    assert "3 of x86-64" in padding.summary(list(findings.values()))


def test_the_delegate_pads_the_outputs_of_the_poolings_that_the_check_pads(padding: ModuleType) -> None:
    header = (FOLDER.parent / "src" / "padding.h").read_text()
    first_pass = re.search(r"kMaxPoolFirstPass = (\d+);", header)
    assert first_pass is not None
    assert int(first_pass[1]) == sys.modules["footprint.calls_window"].FIRST_PASS


def test_a_kernel_of_another_architecture_is_not_examined(padding: ModuleType, sources: Sources) -> None:
    plant_unary(sources, ONE_BY_ONE)
    assert padding.survey(sources.root, ["arm64"]) == []


# ---- what is wrong


def problem_of(padding: ModuleType, sources: Sources) -> str:
    with pytest.raises(padding.PaddingError) as raised:
        padding.survey(sources.root, ["x86-64"])
    return str(raised.value)


@pytest.mark.parametrize(("rows", "entries"), [(14, 10), (16, 10), (17, 15), (12, 10)])
def test_rows_without_spare_quantization_parameters_fail(
    padding: ModuleType, tmp_path: Path, rows: int, entries: int
) -> None:
    sources = Sources(tmp_path / "stock", quantization_params=entries)
    name = plant_gemm(sources, rows)
    text = problem_of(padding, sources)
    assert name in text and "past the end of quantization_params" in text
    assert f"reads {(rows - 1) * 8} bytes" in text and f"where {entries * 8} are provided" in text


def test_inputs_read_further_than_the_header_says_fail(padding: ModuleType, sources: Sources) -> None:
    name = plant_unary(sources, "const __m256 v = _mm256_loadu_ps(input); output[0] = 0.0f;")
    assert f"{name} (a-config.c, x86-64) reads 28 bytes past the end of input" in problem_of(padding, sources)


def test_a_mask_one_lane_too_long_fails(padding: ModuleType, sources: Sources) -> None:
    plant_unary(sources, MASKED.replace("[6] = {-1, -1, -1, 0, 0, 0}", "[7] = {-1, -1, -1, -1, 0, 0, 0}"))
    assert "writes 4 bytes past the end of output" in problem_of(padding, sources)


def test_outputs_written_past_their_end_fail(padding: ModuleType, sources: Sources) -> None:
    plant_gemm(sources, 4, store="_mm_storeu_ps(c, sums)")
    text = problem_of(padding, sources)
    assert "writes 12 bytes past the end of c (" in text and "where 0 are provided" in text


def test_weights_read_past_the_packed_ones_fail(padding: ModuleType, sources: Sources) -> None:
    plant_gemm(sources, 4, inputs=16)  # of 8 that are packed
    assert "bytes past the end of w (" in problem_of(padding, sources)


def test_an_aligned_load_where_nothing_is_aligned_fails(padding: ModuleType, sources: Sources) -> None:
    name = "xnn_f32_vabs_ukernel__sse2_u4"
    sources.add(name, UNARY, unary(ONE_BY_ONE).replace("_mm_loadu_ps", "_mm_load_ps"))
    assert "input at a multiple of 16, which nobody promises" in problem_of(padding, sources)


def test_a_depthwise_kernel_that_reads_more_pointers_than_there_are_fails(
    padding: ModuleType, sources: Sources
) -> None:
    sources.add("xnn_f32_dwconv_minmax_ukernel_3p4c__sse", DEPTHWISE, depthwise(taps=4))
    text = problem_of(padding, sources)
    assert "reads 16 bytes past the end of input (2 taps" in text and "where 8 are provided" in text


def test_a_depthwise_kernel_that_reads_zeros_past_the_buffer_of_zeros_fails(
    padding: ModuleType, tmp_path: Path
) -> None:
    sources = Sources(tmp_path / "stock", extra_bytes=8)
    sources.add("xnn_f32_dwconv_minmax_ukernel_3p1c__sse", DEPTHWISE, depthwise(weights=1, step=1))
    text = problem_of(padding, sources)
    assert "bytes past the end of zero (" in text and "bytes past the end of pixel (" in text


def test_a_table_whose_tile_is_not_the_kernels_fails(padding: ModuleType, sources: Sources) -> None:
    name = plant_gemm(sources, 4, columns=8)
    assert f"{name} (a-config.c, x86-64) has nr 4 by its name, and 8 by its table" in problem_of(padding, sources)


def test_a_source_that_is_not_understood_fails(padding: ModuleType, sources: Sources) -> None:
    plant_unary(sources, "copy_the_rest(input, output, batch);")
    assert "was not understood" in problem_of(padding, sources)


def test_a_kernel_whose_reads_depend_on_its_data_is_not_understood(padding: ModuleType, sources: Sources) -> None:
    plant_unary(sources, "for (size_t i = 0; i < (size_t) *input; i++) { *output++ = 0.0f; }")
    assert "depends on numbers of input" in problem_of(padding, sources)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (1, 0)])
def test_tiles_are_stored_from_the_last_row_to_the_first(
    padding: ModuleType, sources: Sources, first: int, last: int
) -> None:
    body = f"""
  kc = round_up_po2(kc, 4);
  __attribute__((aligned(64))) int32_t res[2 * 16];
  __attribute__((aligned(64))) struct __tile_config tile_data = {{0}};
  tile_data.rows[0] = mr;
  tile_data.rows[1] = mr;
  tile_data.colsb[0] = 64;
  tile_data.colsb[1] = kc;
  float* c0 = c;
  float* c1 = (float*) ((uintptr_t) c0 + cm_stride);
  if XNN_UNPREDICTABLE(mr != 2) {{
    c1 = c0;
  }}
  const __mmask16 mask = _cvtu32_mask16((UINT32_C(1) << nc) - 1);
  _tile_loadd(1, a, a_stride);
  _tile_stored(0, res, 64);
  const __m512i sum0 = _mm512_load_epi32(res);
  const __m512i sum1 = _mm512_load_epi32(res + 16);
  _mm512_mask_storeu_ps(c{first}, mask, sum{first});
  _mm512_mask_storeu_ps(c{last}, mask, sum{last});"""
    sources.add("xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x16c4__avx512amx", GEMM, body.replace("nc)", "min(nc, 16))"))
    if first > last:
        findings = {(f.buffer, f.access): f.bytes for f in padding.survey(sources.root, ["x86-64"])}
        assert findings["a", "read"] == 3 and findings["res", "write"] == 0
    else:
        assert "does not store its rows from the last to the first" in problem_of(padding, sources)


def test_a_kernel_that_no_file_defines_fails(padding: ModuleType, sources: Sources) -> None:
    plant_unary(sources, ONE_BY_ONE)
    table = sources.root / "src/configs/a-config.c"
    table.write_text(table.read_text().replace("vabs", "vneg"))
    assert "xnn_f32_vneg_ukernel__sse2_u4 (a-config.c, x86-64) is defined in no file" in problem_of(padding, sources)


# ---- XNNPACK itself


@pytest.fixture(scope="module")
def xnnpack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's patched sources with the table of matrix products alone, where the pinned file is at hand."""
    sys.path.insert(0, str(FOLDER))
    try:
        import generate
        import get_xnnpack
        import series
    finally:
        sys.path.remove(str(FOLDER))
    (pin,) = [pin for pin in get_xnnpack.read_pins() if pin.package == "xnnpack"]
    cache = Path(os.environ.get("EDGECORE_CACHE") or Path.home() / ".cache" / "edgecore") / "third_party" / "files"
    places = [cache, *map(Path, filter(None, [os.environ.get("EDGECORE_THIRD_PARTY")]))]
    found = [place / pin.name for place in places if pin.matches(place / pin.name)]
    if not found:
        pytest.skip(f"{pin.name} is neither in {cache} nor in EDGECORE_THIRD_PARTY")
    root: Path = get_xnnpack.unpack_tarball(found[0], tmp_path_factory.mktemp("xnnpack"))
    series.apply(root)
    generate.generate(root)
    for table in (root / "src" / "configs").iterdir():
        if table.name != "gemm-config.c":
            table.unlink()
    return root


def test_the_patched_library_keeps_within_its_buffers(padding: ModuleType, xnnpack: Path) -> None:
    findings = padding.survey(xnnpack, ["x86-64"])
    kernels = {finding.kernel for finding in findings}
    for name in (
        "14x16c8__avx512vnnigfni_prfm",
        "16x64c4__avx512amx",
        "12x32c2__avx512skx",
        "8x32c4__avx512vnni",
        "12x32__avx512f_broadcast",
    ):
        assert any(kernel.endswith(name) for kernel in kernels), name
    of_parameters = [f.bytes // 8 for f in findings if f.buffer == "quantization_params"]
    assert max(of_parameters) == 15 == padding.provided(xnnpack, "x86-64").quantization_params


def test_the_header_of_stock_xnnpack_fails(padding: ModuleType, xnnpack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = xnnpack / "include" / "xnnpack.h"
    patched = header.read_text()
    header.write_text(re.sub(r"(XNN_EXTRA_QUANTIZATION_PARAMS) \d+", r"\1 10", patched))
    try:
        with pytest.raises(padding.PaddingError) as raised:
            padding.survey(xnnpack, ["x86-64"])
    finally:
        header.write_text(patched)
    sentences = str(raised.value).splitlines()
    assert {re.search(r"ukernel_(\d+)x", sentence)[1] for sentence in sentences} == {"14", "16"}  # type: ignore[index]
    (int4,) = [sentence for sentence in sentences if "qb4w" in sentence]
    assert "reads 104 bytes past the end of quantization_params" in int4 and "where 80 are provided" in int4


def test_a_kernel_that_reads_past_the_tensor_that_it_adds_fails(padding: ModuleType, xnnpack: Path) -> None:
    name = "qs8-qc8w-igemm-4x32c4-minmax-fp32-avx512vnni.c"
    file = xnnpack / "src" / "qs8-qc8w-igemm" / "gen" / name
    right = file.read_text()
    masked = "_mm_maskz_loadu_epi8(mask1, other + 16)"
    assert right.count(masked) == 4
    file.write_text(right.replace(masked, "_mm_loadu_si128((const __m128i*) (other + 16))", 1))
    try:
        with pytest.raises(padding.PaddingError, match=r"4x32c4__avx512vnni .* reads \d+ bytes past the end of other"):
            padding.survey(xnnpack, ["x86-64"])
    finally:
        file.write_text(right)
