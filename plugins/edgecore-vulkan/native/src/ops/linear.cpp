#include <algorithm>
#include <cstring>

#include "ops/gemm.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

// Returns how many of the `m` rows a thread of shader gemm computes. With shuffles and a long loop (`is_long`), all
// threads of a subgroup use the weights that one of them reads, so more rows per thread save loads; 14 divides the
// number of pixels of typical images. `tuned` is the number that was measured as fastest for m > 8, or 0.
int64_t rows_of_thread(int64_t m, bool is_long, uint32_t tuned) {
  const auto whole = [m](int64_t rows) { return (m + rows - 1) / rows * rows; };
  if (m > 8 && is_long && tuned != 0) return tuned;
  if (m > 8 && is_long) return whole(14) <= whole(16) ? 14 : 16;
  return m >= 8 ? 8 : m >= 2 ? 4 : 1;
}

}  // namespace

Access access_of(const Call &call, const char *shader, const Tensor &out, const Tensor &x, bool x_vectors,
                 const Tensor &w, const Tensor &bias, const Finish &finish, bool shuffles) {
  Access access;
  const bool is_integer = finish.integers.has_value();
  const std::optional<Tensor> last = is_integer ? finish.integers->scales : finish.addend;
  access.texels = call.prefers_texels(x) && call.prefers_texels(w) &&
                  (!last.has_value() || call.prefers_texels(*last)) && out.dtype != Dtype::kInt32;
  const bool has_weights = w.dtype == out.dtype || is_integer;
  const bool fits = x.dtype == out.dtype && (has_weights || w.dtype == Dtype::kFloat32);
  if (!access.texels && !fits) call.unsupported("its input, weights and result have several dtypes");
  access.shuffles = shuffles && access.texels && call.subgroup_size() == kPanel / 4;
  const char *reads = access.shuffles ? "_shuffle" : access.texels ? "_texel" : has_weights ? "_buffer" : "_mixed";
  access.shader = std::string(shader) + "_" + name_of(out.dtype) + reads;
  // The shader's bindings for addend and scales need a tensor even if the layer lacks these: bind the bias, which the
  // shader does not read there.
  access.read = {x, w, bias, last.value_or(bias)};
  if (access.texels) {
    for (Tensor &tensor : access.read) tensor.texel = 4;
    if (!x_vectors) access.read[0].texel = 1;
  }
  return access;
}

Tensor packed_bias(const Call &call, size_t index, size_t weight, int64_t channels) {
  const bool none = call.is_none(index);
  if (!none && call.constant_shape(index) != Shape{channels}) call.damaged("its bias does not fit its weights");
  const std::string form = (none ? "no bias " : "bias ") + std::to_string(channels);
  return call.packed(
      none ? weight : index, form, whole_vectors(channels),
      [=](const float *source, float *packed) {
        if (!none) std::copy(source, source + channels, packed);
      },
      Dtype::kFloat32);
}

// Records the dispatch for the product of multiply() with cooperative matrices, and returns true. Returns false if the
// device cannot do this, if a tensor is not fp16 in a storage buffer, or if the matrices are smaller than what a
// subgroup computes.
static bool multiply_cooperatively(const Call &call, const Tensor &out, const Tensor &x, const Tensor &w,
                                   const Tensor &bias, int64_t m, int64_t k, int64_t n, const Finish &finish,
                                   const std::vector<uint32_t> &push) {
  const std::optional<CooperativeMatrix> &matrix = call.device().matrix();
  constexpr uint32_t kBlocks = 4, kSubgroups = 4;  // as in gemm_cooperative.comp
  if (!matrix.has_value() || out.dtype != Dtype::kFloat16) return false;
  if (m < kBlocks * matrix->rows || n < kBlocks * matrix->columns || k < matrix->steps) return false;
  const uint32_t tile_rows = 2 * kBlocks * matrix->rows, tile_columns = 2 * kBlocks * matrix->columns;
  const uint32_t steps = 2 * matrix->steps;
  const uint32_t shared =
      2 * (tile_rows * (steps + 8) + steps * (tile_columns + 8)) + 4 * kSubgroups * matrix->rows * matrix->columns;
  const VkPhysicalDeviceLimits &limits = call.device().limits();
  const uint32_t threads = kSubgroups * matrix->subgroup;
  if (shared > limits.maxComputeSharedMemorySize || threads > limits.maxComputeWorkGroupInvocations) return false;
  const Access access = access_of(call, "gemm_cooperative", out, x, k % 4 == 0, w, bias, finish, false);
  if (access.texels) return false;
  const auto groups = [](int64_t size, uint32_t tile) { return static_cast<uint32_t>((size + tile - 1) / tile); };
  call.dispatch(access.shader, {out}, access.read, push, {groups(n, tile_columns) * threads, groups(m, tile_rows), 1},
                {threads, 1, 1}, {k % 4 == 0, finish.addend.has_value(), matrix->rows, matrix->columns, matrix->steps});
  return true;
}

void multiply(const Call &call, const Tensor &out, const Tensor &x, const Tensor &w, const Tensor &bias, int64_t m,
              int64_t k, int64_t n, const Finish &finish) {
  std::vector<uint32_t> push = {static_cast<uint32_t>(m), static_cast<uint32_t>(k), static_cast<uint32_t>(n),
                                bits_of(finish.low), bits_of(finish.high)};
  const uint32_t x_vectors = k % 4 == 0, out_vectors = n % 4 == 0, adds = finish.addend.has_value();
  call.check_iterations(x_vectors != 0 ? k / 4 : k);
  Access access = access_of(call, "gemm", out, x, x_vectors != 0, w, bias, finish, true);
  const Tuning &tuning = call.device().tuning();
  if (multiply_cooperatively(call, out, x, w, bias, m, k, n, finish, push)) return;
  if (!access.texels && m >= 32 && is_float(out.dtype)) {
    constexpr uint32_t kThreads = 128, kTileColumns = 64, kThreadsOfColumn = 8;
    const auto groups = [](int64_t size, uint32_t tile) { return static_cast<uint32_t>((size + tile - 1) / tile); };
    access = access_of(call, "gemm_tiled", out, x, x_vectors != 0, w, bias, finish, false);
    return call.dispatch(access.shader, {out}, access.read, std::move(push),
                         {groups(n, kTileColumns) * kThreads, groups(m, kThreadsOfColumn * tuning.tiled_rows), 1},
                         {kThreads, 1, 1}, {x_vectors, out_vectors, adds, tuning.tiled_rows});
  }
  // If a CPU's cache cannot hold all weights, multiply each panel of weights by all rows before the next panel.
  constexpr int64_t kCached = 32 * 1024;
  push.push_back(k * n > kCached);
  push.push_back(adds);
  finish.append_to(&push);
  // Use a shader with more rows per thread if the loop over k is long; in a short one, writing results takes most time.
  constexpr int64_t kLong = 32;
  const bool is_long = access.shuffles && k > kLong;
  const int64_t rows = rows_of_thread(m, is_long, tuning.gemm_rows), panels = (n + kPanel - 1) / kPanel;
  // Use one large shader with an optional addend: it compiles faster than two shaders would.
  const bool may_add = finish.addend.has_value() || (is_long && out_vectors != 0 && is_float(out.dtype));
  const uint32_t vectors = is_long && k % 8 == 0 ? 2 : x_vectors;
  call.dispatch_flat(access.shader, {out}, access.read, std::move(push), (m + rows - 1) / rows * panels * (kPanel / 4),
                     {static_cast<uint32_t>(rows), vectors, out_vectors, may_add, finish.splits(k)},
                     tuning.group_threads);
}

void linear(Call &call) {
  const Tensor x = call.tensor(0);
  const Shape weight = call.constant_shape(1);
  if (weight.size() != 2 || x.rank() < 1 || x.shape.back() != weight[1])
    call.damaged("its weights do not fit its input");
  if (x.layout != Layout::kRowMajor || !is_float(x.dtype))
    call.unsupported("its input is not row-major or has integers");
  const int64_t n = weight[0], k = weight[1];
  Shape shape = x.shape;
  shape.pop_back();
  const int64_t m = count(shape);
  shape.push_back(n);
  Finish finish;
  if (n % 4 == 0) finish.addend = call.addend_of(call.last(), shape);
  const Tensor out = finish.addend.has_value() ? call.output_of_sum(shape) : call.output(call.last(), shape);
  if (out.layout != Layout::kRowMajor || out.dtype != x.dtype) {
    call.unsupported("its result is not row-major or has another dtype than its input");
  }
  const Tensor w = packed_panels(call, 1, "linear", k, n, [=](int64_t i, int64_t o) { return o * k + i; });
  multiply(call, out, x, w, packed_bias(call, 2, 1, n), m, k, n, finish);
}

}  // namespace edgecore::vulkan
