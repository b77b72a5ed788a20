// Records the shader dispatches of products with constant weights, for linear layers and convolutions.
#ifndef EDGECORE_VULKAN_OPS_GEMM_H_
#define EDGECORE_VULKAN_OPS_GEMM_H_

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "call.h"
#include "ops/push.h"

namespace edgecore::vulkan {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// The maximum number of products of 8-bit integers whose sum is exact in fp32 (up to 2^24): 512 * (2^8 * 2^7) = 2^24.
constexpr int64_t kExactProducts = 512;

// Requantizes an integer layer: multiplies exact sums of 8-bit products by scales, and rounds the real numbers to int8.
struct Requantization {
  Tensor scales;  // a scale per column of the weights, fp32, padded to a multiple of 4
  // Push constants: the zero points of input and result, and the bits of the input's scale and of 1 / result scale.
  uint32_t in_zero = 0, out_zero = 0, in_scale = 0, inverse = 0;
};

// The last step of a layer: each number is clamped to a range (NaN stays NaN), then a tensor of the same shape is
// added. This step is only possible for results that are written in whole vectors of four elements. Integer results
// have no addend and no upper limit.
struct Finish {
  double low = -kNoLimit, high = kNoLimit;
  std::optional<Tensor> addend;
  std::optional<Requantization> integers;

  // Returns true if sums of this many products must be computed in parts to be exact (shaders/layer.glsl).
  bool splits(int64_t products) const { return integers.has_value() && products > kExactProducts; }
  // Appends the push constants of requantization, which integer shaders read after all other push constants.
  void append_to(std::vector<uint32_t> *push) const {
    if (!integers.has_value()) return;
    push->insert(push->end(), {integers->in_zero, integers->out_zero, integers->in_scale, integers->inverse});
  }
};

constexpr int64_t kPanel = 32;  // number of columns of a panel of weights (shaders/panels.glsl)

constexpr int64_t whole_vectors(int64_t elements) { return (elements + 3) / 4 * 4; }

// How a shader reads its tensors (shaders/access.glsl): its variant, the tensors to bind, and whether these are texel
// buffers.
struct Access {
  std::string shader;
  std::vector<Tensor> read;
  bool texels = false, shuffles = false;
};

// Returns how a shader that computes `out` from x, weights, bias and the tensors in `finish` reads them. `x_vectors`:
// the shader reads x in vectors of four, not in elements. `shuffles`: the shader has a variant whose threads share
// their loads.
Access access_of(const Call &call, const char *shader, const Tensor &out, const Tensor &x, bool x_vectors,
                 const Tensor &w, const Tensor &bias, const Finish &finish, bool shuffles);

// Returns constant weights, argument `index`, as a matrix [k, n] in panels (shaders/panels.glsl). `source_of` maps a
// row and a column of the matrix to the index of the weight in the constant.
template <typename SourceOf>
Tensor packed_panels(const Call &call, size_t index, const std::string &form, int64_t k, int64_t n,
                     SourceOf source_of) {
  const int64_t columns = (n + kPanel - 1) / kPanel * kPanel;
  return call.packed(index, form, k * columns, [=](const float *source, float *packed) {
    for (int64_t first = 0; first < n; first += kPanel) {
      const int64_t width = std::min(kPanel, n - first);
      for (int64_t i = 0; i < k; ++i) {
        float *row = packed + first * k + i * kPanel;
        for (int64_t o = 0; o < width; ++o) row[o] = source[source_of(i, first + o)];
      }
    }
  });
}

// Returns constant 8-bit weights in panels; elements are in the order of packed_panels().
template <typename SourceOf>
Tensor packed_integer_panels(const Call &call, size_t index, const std::string &form, int64_t k, int64_t n,
                             SourceOf source_of) {
  const int64_t columns = (n + kPanel - 1) / kPanel * kPanel;
  Tensor tensor = call.packed_words(index, form, k * columns / 4, [=](const uint8_t *source, uint32_t *words) {
    auto *packed = reinterpret_cast<uint8_t *>(words);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t o = 0; o < n; ++o) {
        packed[o / kPanel * kPanel * k + i * kPanel + o % kPanel] = source[source_of(i, o)];
      }
    }
  });
  tensor.dtype = Dtype::kInt8;
  tensor.shape = {k * columns};
  return tensor;
}

// Returns the bias of `channels` outputs, in fp32 and padded to whole vectors of 4: argument `index`, or zeros if the
// argument is absent. Zeros are cached with the constant in argument `weight`, because every cached tensor belongs to a
// constant.
Tensor packed_bias(const Call &call, size_t index, size_t weight, int64_t channels);

// Records the dispatch that computes out = finish(x w + bias), where x [m, k] and out [m, n] are row-major, and w [k,
// n] is in panels.
void multiply(const Call &call, const Tensor &out, const Tensor &x, const Tensor &w, const Tensor &bias, int64_t m,
              int64_t k, int64_t n, const Finish &finish);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_GEMM_H_
