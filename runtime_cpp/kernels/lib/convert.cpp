#include "lib/convert.h"

#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Do not use edgecore/half.h in kernels, which are compiled once per instruction set: its inline functions would have
// the same name in every copy, and the linker would keep an arbitrary one.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "same width");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

#if defined(__aarch64__)  // 64-bit Arm always has instructions for fp16; other processors may lack them
inline float to_float(Float16 h) { return bits_as<__fp16>(h.bits); }

// Like the generic version, replaces every NaN by the quiet NaN 0x7e00 with the same sign.
inline Float16 to_float16(float f) {
  const uint16_t bits = bits_as<uint16_t>(static_cast<__fp16>(f));
  return {f != f ? static_cast<uint16_t>((bits & 0x8000) | 0x7e00) : bits};
}
#else
inline float to_float(Float16 h) {
  // Shift exponent and mantissa of the fp16 to their places in an fp32. This gives the value times 2^(15 - 127),
  // because the exponent biases are 15 (fp16) and 127 (fp32). A multiplication by 2^112 (0x77800000) corrects the value
  // exactly, and normalizes subnormals unless the processor flushes subnormals to zero. Infinity and NaN need the
  // maximum exponent, which is set afterwards; the payload of a NaN stays. There are no branches, so that loops
  // vectorize.
  const uint32_t magnitude = static_cast<uint32_t>(h.bits & 0x7fff) << 13;
  float value = bits_as<float>(magnitude) * bits_as<float>(uint32_t{0x77800000});
  const uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000u : 0u;  // set the exponent of infinity and NaN
  return bits_as<float>(bits_as<uint32_t>(value) | special | (static_cast<uint32_t>(h.bits & 0x8000) << 16));
}

inline Float16 to_float16(float f) {
  // Round to nearest even. Normal results: subtract the difference of the biases, 112, from the exponent (112 << 23 =
  // 0x38000000), and add just under half a unit of the last kept bit, plus that bit; a carry into the exponent is
  // correct. Subnormal results are multiples of 2^-24, the spacing of fp32 numbers in [0.5, 1), so adding 0.5 makes the
  // processor round to such a multiple (in its default rounding mode). Every NaN becomes 0x7e00 with its sign.
  const uint32_t bits = bits_as<uint32_t>(f);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t result;
  if (magnitude > 0x7f800000) {
    result = 0x7e00;
  } else if (magnitude >= 0x477ff000) {  // numbers from 65520 on round to infinity in fp16
    result = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // the result is a normal fp16
    result = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  } else {  // the result is a subnormal fp16 or zero
    result = bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000;
  }
  return {static_cast<uint16_t>(sign | result)};
}
#endif

inline float to_float(BFloat16 b) { return bits_as<float>(static_cast<uint32_t>(b.bits) << 16); }

inline BFloat16 to_bfloat16(float f) {
  // A bf16 is the upper half of an fp32. To round to nearest even, add 0x7fff, just under half a unit of the last kept
  // bit, plus that bit. A NaN becomes the quiet NaN 0x7fc0, because the addition could turn the NaN into infinity or
  // zero.
  const uint32_t bits = bits_as<uint32_t>(f);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return {static_cast<uint16_t>(f != f ? 0x7fc0 : rounded)};
}

template <class C, class S>
struct Convert {
  static C load(S s) { return static_cast<C>(s); }
  static S store(C c) { return static_cast<S>(c); }
};
template <class C>
struct Convert<C, Float16> {
  static C load(Float16 s) { return static_cast<C>(to_float(s)); }
  static Float16 store(C c) { return to_float16(static_cast<float>(c)); }
};
template <class C>
struct Convert<C, BFloat16> {
  static C load(BFloat16 s) { return static_cast<C>(to_float(s)); }
  static BFloat16 store(C c) { return to_bfloat16(static_cast<float>(c)); }
};
template <class C>
struct Convert<C, Bool> {
  static C load(Bool s) { return static_cast<C>(s.byte != 0); }
  static Bool store(C c) { return {static_cast<uint8_t>(c != C{0})}; }
};
// Converts a float to an integer type through int64, because C++ does not define the conversion of a negative float to
// an unsigned type. So -1.0 becomes 255 in uint8, as in ATen.
template <class F, class S>
inline S narrow(F f) {
  return static_cast<S>(static_cast<int64_t>(f));
}
#define EDGECORE_NARROW(F, S)                        \
  template <>                                        \
  struct Convert<F, S> {                             \
    static F load(S s) { return static_cast<F>(s); } \
    static S store(F f) { return narrow<F, S>(f); }  \
  };
EDGECORE_NARROW(float, uint8_t)
EDGECORE_NARROW(float, uint16_t)
EDGECORE_NARROW(float, uint32_t)
EDGECORE_NARROW(double, uint8_t)
EDGECORE_NARROW(double, uint16_t)
EDGECORE_NARROW(double, uint32_t)
#undef EDGECORE_NARROW

template <class S, class C>
void load_as(const char *source, int64_t stride, int64_t n, C *__restrict target) {
  if (stride == static_cast<int64_t>(sizeof(S))) {
    const S *dense = reinterpret_cast<const S *>(source);
    for (int64_t i = 0; i < n; ++i) target[i] = Convert<C, S>::load(dense[i]);
  } else if (stride == 0) {
    const C value = Convert<C, S>::load(*reinterpret_cast<const S *>(source));
    for (int64_t i = 0; i < n; ++i) target[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) {
      target[i] = Convert<C, S>::load(*reinterpret_cast<const S *>(source + i * stride));
    }
  }
}

template <class S, class C>
void store_as(char *target, int64_t stride, int64_t n, const C *__restrict source) {
  if (stride == static_cast<int64_t>(sizeof(S))) {
    S *dense = reinterpret_cast<S *>(target);
    for (int64_t i = 0; i < n; ++i) dense[i] = Convert<C, S>::store(source[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      *reinterpret_cast<S *>(target + i * stride) = Convert<C, S>::store(source[i]);
    }
  }
}

// Returns true for dtypes that this build has code for: the selected dtypes (see EDGECORE_DTYPES), and the dtypes of
// Python numbers, because kernels treat a number argument as a tensor without dims.
constexpr bool is_compiled(Type type) {
  return selected(type) || type == Type::kF32 || type == Type::kF64 || type == Type::kI64 || type == Type::kBool;
}

// Expands CASE(dtype, C++ type of its elements) for every dtype except the complex dtypes, for switch statements.
#define EDGECORE_STORAGE_TYPES(CASE) \
  CASE(kU8, uint8_t)                 \
  CASE(kI8, int8_t)                  \
  CASE(kI16, int16_t)                \
  CASE(kI32, int32_t)                \
  CASE(kI64, int64_t)                \
  CASE(kU16, uint16_t)               \
  CASE(kU32, uint32_t)               \
  CASE(kF16, Float16)                \
  CASE(kBF16, BFloat16)              \
  CASE(kF32, float)                  \
  CASE(kF64, double)                 \
  CASE(kBool, Bool)

template <class C>
void load_any(Type type, const char *source, int64_t stride, int64_t n, C *target) {
  switch (type) {
#define EDGECORE_CASE(TYPE, S)                                                              \
  case Type::TYPE:                                                                          \
    if constexpr (is_compiled(Type::TYPE)) return load_as<S, C>(source, stride, n, target); \
    break;
    EDGECORE_STORAGE_TYPES(EDGECORE_CASE)
#undef EDGECORE_CASE
    default:  // do nothing for a complex dtype, or a number that is not a dtype
      return;
  }
}

template <class C>
void store_any(Type type, char *target, int64_t stride, int64_t n, const C *source) {
  switch (type) {
#define EDGECORE_CASE(TYPE, S)                                                               \
  case Type::TYPE:                                                                           \
    if constexpr (is_compiled(Type::TYPE)) return store_as<S, C>(target, stride, n, source); \
    break;
    EDGECORE_STORAGE_TYPES(EDGECORE_CASE)
#undef EDGECORE_CASE
    default:  // do nothing for a complex dtype, or a number that is not a dtype
      return;
  }
}
#undef EDGECORE_STORAGE_TYPES

// Target and source dtype, the parameters of convert_run.
struct Conversion {
  Type to;
  Type from;
};

// Converts n elements, `strides` bytes apart, from data[1] to data[0], through C, the source dtype's compute type.
template <class C>
void convert_run(const Conversion &types, char *const *data, const int64_t *strides, int64_t n) {
  C buffer[kChunk];
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t m = n - start < kChunk ? n - start : kChunk;
    load(types.from, data[1] + start * strides[1], strides[1], m, buffer);
    store(types.to, data[0] + start * strides[0], strides[0], m, buffer);
  }
}

}  // namespace

void load(Type type, const char *source, int64_t stride, int64_t n, float *target) {
  load_any(type, source, stride, n, target);
}
void load(Type type, const char *source, int64_t stride, int64_t n, double *target) {
  load_any(type, source, stride, n, target);
}
void load(Type type, const char *source, int64_t stride, int64_t n, int64_t *target) {
  load_any(type, source, stride, n, target);
}
void load(Compute compute, Type type, const char *source, int64_t stride, int64_t n, void *target) {
  if (compute == Compute::kFloat) return load(type, source, stride, n, static_cast<float *>(target));
  if (compute == Compute::kDouble) return load(type, source, stride, n, static_cast<double *>(target));
  load(type, source, stride, n, static_cast<int64_t *>(target));
}

void store(Type type, char *target, int64_t stride, int64_t n, const float *source) {
  store_any(type, target, stride, n, source);
}
void store(Type type, char *target, int64_t stride, int64_t n, const double *source) {
  store_any(type, target, stride, n, source);
}
void store(Type type, char *target, int64_t stride, int64_t n, const int64_t *source) {
  store_any(type, target, stride, n, source);
}
void store(Compute compute, Type type, char *target, int64_t stride, int64_t n, const void *source) {
  if (compute == Compute::kFloat) return store(type, target, stride, n, static_cast<const float *>(source));
  if (compute == Compute::kDouble) return store(type, target, stride, n, static_cast<const double *>(source));
  store(type, target, stride, n, static_cast<const int64_t *>(source));
}

void fill(Type type, char *target, int64_t n, Scalar value) {
  if (n <= 0) return;
  const int64_t size = item_size(type);
  if (value.is_floating()) {
    store(type, target, size, 1, &value.d);
  } else {
    store(type, target, size, 1, &value.i);
  }
  // Double the filled part until it has 2048 elements, then fill the rest with copies of this block. memcpy suits any
  // dtype.
  int64_t done = 1;
  while (done < n) {
    const int64_t block = done < 2048 ? done : 2048;
    const int64_t m = n - done < block ? n - done : block;
    __builtin_memcpy(target + done * size, target, static_cast<uint64_t>(m * size));
    done += m;
  }
}

void copy_tensor(Call &call, Tensor target, Tensor source) {
  if (target.type() == source.type()) {
    copy_strided(call, item_size(target.type()), make_loop(call, target.shape(), {target, source}));
    return;
  }
  const Conversion types = {target.type(), source.type()};
  const Loop loop = make_loop(call, target.shape(), {target, source});
  for_each_run(call, loop, 16384, [&](char *const *data, const int64_t *strides, int64_t n) {
    const Compute compute = compute_of(types.from);
    if (compute == Compute::kFloat) {
      convert_run<float>(types, data, strides, n);
    } else if (compute == Compute::kDouble) {
      convert_run<double>(types, data, strides, n);
    } else {
      convert_run<int64_t>(types, data, strides, n);
    }
  });
}

template <class C>
const C *dense(Call &call, Tensor tensor) {
  if (call.failed()) return nullptr;
  const Type type = storage_of(compute_for<C>());
  if (tensor.type() == type && tensor.is_contiguous()) return reinterpret_cast<const C *>(tensor.data());
  C *target = call.scratch<C>(tensor.numel());
  if (target == nullptr) return nullptr;
  TensorView copy(target, type, tensor.shape());
  copy_tensor(call, copy.tensor(), tensor);
  return target;
}

template <class C>
DenseOut<C>::DenseOut(Call &call, Tensor out) : out_(out) {
  if (call.failed()) return;
  direct_ = out.type() == storage_of(compute_for<C>()) && out.is_contiguous();
  data_ = direct_ ? reinterpret_cast<C *>(out.data()) : call.scratch<C>(out.numel());
}

template <class C>
void DenseOut<C>::finish(Call &call) const {
  if (direct_ || call.failed()) return;
  TensorView result(data_, storage_of(compute_for<C>()), out_.shape());
  copy_tensor(call, out_, result.tensor());
}

template const float *dense<float>(Call &, Tensor);
template const double *dense<double>(Call &, Tensor);
template const int64_t *dense<int64_t>(Call &, Tensor);
template class DenseOut<float>;
template class DenseOut<double>;
template class DenseOut<int64_t>;

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
