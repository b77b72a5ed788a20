// The operator edgecore_llm::rotate, SpinQuant's rotation by a Walsh-Hadamard transform.
#include <math.h>
#include <string.h>

#include "call.h"
#include "operators.h"

namespace edgecore::llm {
namespace {

// Transforms a row of 2^k values in k passes of sums and differences, with the same rounding on every processor.
void transform(const float *x, int64_t size, float *out) {
  memcpy(out, x, static_cast<size_t>(size) * sizeof(float));
  for (int64_t half = 1; half < size; half *= 2) {
    for (int64_t block = 0; block < size; block += 2 * half) {
      float *first = out + block;
      float *second = first + half;
      for (int64_t i = 0; i < half; ++i) {
        const float a = first[i];
        const float b = second[i];
        first[i] = a + b;
        second[i] = a - b;
      }
    }
  }
  const float scale = 1.0f / sqrtf(static_cast<float>(size));
  for (int64_t i = 0; i < size; ++i) out[i] *= scale;
}

}  // namespace

// edgecore_llm::rotate(Tensor x) -> Tensor: transforms each row of x [T, 2^k].
int32_t EDGECORE_CALL rotate(const edgecore_call *c) {
  Call call(c, "rotate");
  const Tensor x = call.tensor(0, "x", Dtype::kFloat32, 2);
  const Tensor out = call.tensor(1, "out", Dtype::kFloat32, 2);
  if (call.failed()) return call.status();
  const int64_t size = x.size(1);
  if (!call.check(size > 0 && (size & (size - 1)) == 0, "x must have rows of a power of two")) return call.status();
  const int64_t shape[] = {x.size(0), size};
  if (!call.resize(out, shape, 2)) return call.status();
  call.parallel_for(shape[0], 1, [&](int64_t begin, int64_t end, uint32_t) {
    for (int64_t row = begin; row < end; ++row) {
      transform(x.data<const float>() + row * size, size, out.data<float>() + row * size);
    }
  });
  return call.status();
}

}  // namespace edgecore::llm
