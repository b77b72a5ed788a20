// Random numbers by Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011), which computes
// each number from a counter. Element i of a call depends only on i and on the number of earlier calls in the process,
// not on threads: a process that makes the same calls gets the same numbers in each run.
#include <atomic>

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

struct Block {
  uint32_t words[4];
};

Block philox(uint64_t counter, uint64_t stream) {
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(stream),
                   static_cast<uint32_t>(stream >> 32)};
  uint32_t key[2] = {0x243F6A88u, 0x85A308D3u};  // an arbitrary key: the first 64 bits of pi's fraction
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    __builtin_memcpy(c, next, sizeof(c));
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

std::atomic<uint64_t> call_count{0};

// Returns the number of random bits for a dtype: at most the bits of the dtype's significand, because with more bits
// some numbers would be rounded up to 1, which is not in [0, 1).
int significand_bits(Type type) {
  return type == Type::kF16 ? 11 : type == Type::kBF16 ? 8 : type == Type::kF32 ? 24 : 32;
}

// Returns a uniform number in [0, 1) from the upper `bits` bits of a random word.
double uniform(uint32_t word, int bits) {
  return static_cast<double>(word >> (32 - bits)) / static_cast<double>(uint64_t{1} << bits);
}

// Fills an array of n doubles: f(block, bits, four) computes four numbers from a block of four random words.
template <class F>
void generate(Call &call, double *target, int64_t n, int bits, const F &f) {
  const uint64_t stream = call_count.fetch_add(1, std::memory_order_relaxed);
  call.parallel((n + 3) / 4, 4096, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      double four[4];
      f(philox(static_cast<uint64_t>(i), stream), bits, four);
      for (int64_t k = 0; k < 4 && 4 * i + k < n; ++k) target[4 * i + k] = four[k];
    }
  });
}

void uniforms(const Block &block, int bits, double *four) {
  for (int k = 0; k < 4; ++k) four[k] = uniform(block.words[k], bits);
}

// Box-Muller transform of pairs of uniform numbers to normal numbers. 1 - uniform is in (0, 1], so the logarithm is
// finite.
void normals(const Block &block, int, double *four) {
  for (int k = 0; k < 4; k += 2) {
    const double radius = __builtin_sqrt(-2.0 * __builtin_log(1.0 - uniform(block.words[k], 32)));
    const double angle = 6.283185307179586 * uniform(block.words[k + 1], 32);
    four[k] = radius * __builtin_cos(angle);
    four[k + 1] = radius * __builtin_sin(angle);
  }
}

template <class F>
int32_t random(const edgecore_call *raw, const char *op, const F &f) {
  Call call(raw, op);
  const Ints sizes = call.ints(0);
  const Tensor out = call.tensor(1);
  if (!call.check(!call.failed() && is_floating(out.type()), "out must be floating") ||
      !call.check(sizes.count <= kMaxDims, "too many dims")) {
    return call.status();
  }
  Shape shape;
  for (int64_t d = 0; d < sizes.count; ++d) {
    if (!call.check(sizes[d] >= 0, "a size is negative")) return call.status();
    shape.push(sizes[d]);
  }
  if (!call.resize(out, shape)) return call.status();
  const DenseOut<double> result(call, out);
  if (call.failed()) return call.status();
  generate(call, result.data(), out.numel(), significand_bits(out.type()), f);
  result.finish(call);
  return call.status();
}

}  // namespace

int32_t rand_out(const edgecore_call *raw) { return random(raw, "aten::rand.out", uniforms); }
int32_t randn_out(const edgecore_call *raw) { return random(raw, "aten::randn.out", normals); }

int32_t native_dropout_out(const edgecore_call *raw) {
  Call call(raw, "aten::native_dropout.out");
  const Tensor input = call.tensor(0);
  const double p = call.real(1);
  const bool train = call.is_none(2) || call.flag(2);
  const Tensor out = call.tensor(3);
  const Tensor mask = call.tensor(4);
  if (!call.check(!call.failed() && p >= 0 && p <= 1, "p must be between 0 and 1") ||
      !call.check(is_floating(input.type()) && input.type() == out.type(),
                  "the input and out must have the same floating dtype") ||
      !call.check(mask.type() == Type::kBool, "the mask must be a bool tensor")) {
    return call.status();
  }
  const Shape shape = input.shape();
  if (!call.resize(out, shape, "out0") || !call.resize(mask, shape, "out1")) return call.status();
  if (!train) {
    Scalar true_value;
    true_value.i = 1;
    fill(mask.type(), mask.data(), mask.numel(), true_value);
    copy_tensor(call, out, input);
    return call.status();
  }
  const int64_t n = shape.numel();
  const double *in = dense<double>(call, input);
  double *samples = call.scratch<double>(n);
  if (call.failed()) return call.status();
  generate(call, samples, n, 32, uniforms);
  const DenseOut<double> result(call, out);
  uint8_t *kept = static_cast<uint8_t *>(call.scratch(n));
  if (call.failed()) return call.status();
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  for (int64_t i = 0; i < n; ++i) {
    kept[i] = samples[i] >= p;
    result.data()[i] = kept[i] != 0 ? in[i] * scale : 0;
  }
  result.finish(call);
  TensorView kept_mask(kept, Type::kBool, shape);
  copy_tensor(call, mask, kept_mask.tensor());
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
