#include "ops/matmul.h"

#include <algorithm>

#include "ops/gemm.h"
#include "ops/loop.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

// Maximum number of workgroups of a dispatch in y and z; the shader loops over further rows and batches.
constexpr uint32_t kMaxGroups = 65535;

const char *kind_of(const Call &call, Dtype a, Dtype b, Dtype out) {
  constexpr Dtype kSingle = Dtype::kFloat32, kHalf = Dtype::kFloat16;
  if (a == kSingle && b == kSingle && out == kSingle) return "matmul_f32";
  if (a == kHalf && b == kHalf && out == kHalf) return "matmul_f16";
  if (a == kHalf && b == kHalf && out == kSingle) return "matmul_scores";
  if (a == kSingle && b == kHalf && out == kHalf) return "matmul_weighted";
  call.unsupported("it multiplies %s and %s to %s", name_of(a), name_of(b), name_of(out));
}

void check_rows(const Call &call, const Tensor &out) {
  if (!Tensor{out.dtype, Layout::kRowMajor, out.shape, 0}.same_order(out))
    call.unsupported("its result is not row-major");
}

// Returns true if a shader with shuffles can compute the product: the device has subgroups of eight threads that can
// read each other's values, the product has several rows, and each row of b consists of whole vectors.
bool can_shuffle(const Call &call, const Product &product, const Tensor &a, const Tensor &b) {
  const bool texels = call.prefers_texels(a) && call.prefers_texels(b) && call.subgroup_size() == kPanel / 4;
  return texels && product.m > 1 && (product.transposed ? product.k : product.n) % 4 == 0;
}

void multiply_by_shuffles(const Call &call, const Product &product, const Tensor &a, const Tensor &b,
                          const Tensor &addend, const Tensor &out, const std::vector<uint32_t> &push) {
  kind_of(call, a.dtype, b.dtype, out.dtype);  // called only because it throws for dtypes that no shader supports
  const bool a_vectors = product.k % 4 == 0, out_vectors = product.n % 4 == 0;
  const int64_t rows = product.m > 8 ? 16 : 8, panels = (product.n + kPanel - 1) / kPanel;
  call.check_iterations(a_vectors ? product.k / 4 : product.k);
  call.dispatch_flat(std::string("matmul_shuffle_") + name_of(out.dtype) + "_shuffle", {out},
                     {Call::texels(a, a_vectors ? 4 : 1), Call::texels(b, 4), Call::texels(addend, 1)}, push,
                     product.batches * ((product.m + rows - 1) / rows) * panels * (kPanel / 4),
                     {product.transposed ? 1u : 0u, product.addend == nullptr ? 0u : 1u, a_vectors ? 1u : 0u,
                      out_vectors ? 1u : 0u, static_cast<uint32_t>(rows)},
                     call.device().tuning().group_threads);
}

}  // namespace

void multiply_matrices(const Call &call, const Product &product, const Tensor &a, const Tensor &b, const Tensor &out) {
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  if (out.count() == 0) return;
  if (product.addend != nullptr && product.addend->dtype != b.dtype) {
    call.unsupported("it adds %s to a product of %s", name_of(product.addend->dtype), name_of(b.dtype));
  }
  const int64_t *strides = product.addend_strides;
  const std::vector<uint32_t> push = {number(product.m),
                                      number(product.k),
                                      number(product.n),
                                      number(product.batches),
                                      product.shares_b ? 1 : number(product.batches),
                                      number(strides[0]),
                                      number(strides[1]),
                                      number(product.inner),
                                      number(strides[2]),
                                      number(strides[3]),
                                      bits_of(product.alpha)};
  const Tensor addend = product.addend == nullptr ? b : *product.addend;
  if (can_shuffle(call, product, a, b)) return multiply_by_shuffles(call, product, a, b, addend, out, push);
  const int64_t columns = (product.n + 3) / 4, rows = product.m >= 8 ? 8 : product.m >= 2 ? 4 : 1;
  uint32_t lanes = 8;
  while (lanes < 32 && lanes < columns) lanes *= 2;
  call.check_iterations((product.k + 3) / 4);
  call.dispatch(kind_of(call, a.dtype, b.dtype, out.dtype), {out}, {a, b, addend}, push,
                {number(columns), std::min(number((product.m + rows - 1) / rows), kMaxGroups),
                 std::min(number(product.batches), kMaxGroups)},
                {lanes, 1, 1},
                {product.transposed ? 1u : 0u, product.addend == nullptr ? 0u : 1u, product.k % 4 == 0 ? 1u : 0u,
                 (product.transposed ? product.k : product.n) % 4 == 0 ? 1u : 0u, number(rows)});
}

void matrix_multiply(Call &call) {
  const Tensor a = in_rows(call, call.tensor(0)), b = in_rows(call, call.tensor(1));
  const size_t rank = call.name() == "aten.bmm.default" ? 3 : 2;
  if (a.rank() != rank || b.rank() != rank || a.size(1) != b.size(2) || (rank == 3 && a.shape[0] != b.shape[0])) {
    call.damaged("the shapes of its inputs do not fit");
  }
  Shape shape = a.shape;
  shape.back() = b.shape.back();
  const Tensor out = call.output(call.last(), shape);
  check_rows(call, out);
  Product product;
  product.batches = a.size(3);
  product.m = a.size(2);
  product.k = a.size(1);
  product.n = b.size(1);
  multiply_matrices(call, product, a, b, out);
}

// Records the dispatches of a linear layer. Constant weights are packed once; computed weights are multiplied as an
// ordinary matrix.
void linear_layer(Call &call) {
  if (call.is_constant(1) && (call.is_none(2) || call.is_constant(2))) return linear(call);
  const Tensor x = in_rows(call, call.tensor(0)), w = in_rows(call, call.tensor(1));
  if (w.rank() != 2 || x.rank() < 1 || x.size(1) != w.size(1)) call.damaged("its weights do not fit its input");
  Shape shape = x.shape;
  shape.back() = w.shape[0];
  Tensor bias;
  Product product;
  if (!call.is_none(2)) {
    bias = call.tensor(2);
    if (bias.shape != Shape{w.shape[0]}) call.damaged("its bias does not fit its weights");
    product.addend = &bias;
    product.addend_strides[3] = 1;
  }
  const Tensor out = call.output(call.last(), shape);
  check_rows(call, out);
  product.n = w.shape[0];
  product.k = w.shape[1];
  product.m = 1;
  for (size_t i = 0; i + 1 < x.rank(); ++i) product.m *= x.shape[i];
  product.transposed = true;
  multiply_matrices(call, product, x, w, out);
}

}  // namespace edgecore::vulkan
