// Builds the backend with wrong kernels, so that a test can check that try_kernels reports them. When this library is
// loaded, it replaces XNNPACK's fp32 GEMM kernels of the tile for layers of 32 outputs by kernels that add 1 to the
// first element of the last row of a tile. A kernel that reads past its parameters causes such errors.
#include <cstddef>
#include <cstdint>

namespace {

using Kernel = void (*)(size_t rows, size_t columns, size_t inputs, const float *a, size_t a_stride,
                        const void *weights, float *output, size_t row_stride, size_t column_stride,
                        const void *params);

constexpr size_t kRows = 16;  // XNN_MAX_MR: XNNPACK's configuration struct begins with the kernels for 1 to 16 rows
Kernel kernels[kRows];

template <size_t kIndex>
void wrong(size_t rows, size_t columns, size_t inputs, const float *a, size_t a_stride, const void *weights,
           float *output, size_t row_stride, size_t column_stride, const void *params) {
  kernels[kIndex](rows, columns, inputs, a, a_stride, weights, output, row_stride, column_stride, params);
  if (rows > 2) *reinterpret_cast<float *>(reinterpret_cast<uintptr_t>(output) + (rows - 1) * row_stride) += 1;
}

template <size_t kIndex = 0>
void plant(Kernel *table) {
  kernels[kIndex] = table[kIndex];
  if (table[kIndex] != nullptr) table[kIndex] = wrong<kIndex>;
  if constexpr (kIndex + 1 < kRows) plant<kIndex + 1>(table);
}

}  // namespace

extern "C" Kernel *xnn_choose_f32_gemm_config(size_t outputs, size_t row_bytes);

__attribute__((constructor)) static void plant_wrong_kernel() { plant(xnn_choose_f32_gemm_config(32, sizeof(float))); }
