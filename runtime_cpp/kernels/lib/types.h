// Element types and ATen's promotion rules.
#ifndef EDGECORE_KERNELS_TYPES_H_
#define EDGECORE_KERNELS_TYPES_H_

#include <stdint.h>

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Numbers of the .pte's ScalarType.
enum class Type : int32_t {
  kU8 = 0,
  kI8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,
  kF32 = 6,
  kF64 = 7,
  kComplexF16 = 8,  // complex types reach few operators: see Call::complex_tensor
  kComplexF32 = 9,
  kComplexF64 = 10,
  kBool = 11,
  kBF16 = 15,
  kU16 = 27,
  kU32 = 28,
  kNone = -1,
};

// What a kernel computes in: every integer as int64 (results wrap when stored), half and bfloat16 as float.
enum class Compute : int32_t { kFloat = 0, kDouble = 1, kInt = 2 };

// Bit n: tensors of ScalarType n are taken. A build for chosen models (edgecore_kernels in CMake) sets the ones that
// they use; code for the others folds away, and their tensors are refused.
#define EDGECORE_ALL_DTYPES 0x18008fff
#ifndef EDGECORE_DTYPES
#define EDGECORE_DTYPES EDGECORE_ALL_DTYPES
#endif
constexpr bool is_in(uint64_t types, Type type) {  // any number: a file's
  return static_cast<uint32_t>(type) < 64 && ((types >> static_cast<uint32_t>(type)) & 1) != 0;
}
constexpr bool is_known(Type type) { return is_in(EDGECORE_ALL_DTYPES, type); }
constexpr bool selected(Type type) { return is_in(EDGECORE_DTYPES, type); }

bool is_supported(Type type);  // and selected; false for complex types
int64_t item_size(Type type);  // in bytes; 0 for complex types
const char *type_name(Type type);

constexpr bool is_floating(Type type) {
  return type == Type::kF16 || type == Type::kF32 || type == Type::kF64 || type == Type::kBF16;
}
constexpr bool is_integral(Type type) { return !is_floating(type) && type != Type::kBool; }

// The type of a complex type's two parts; kNone of any other.
constexpr Type part_of(Type type) {
  return type == Type::kComplexF16   ? Type::kF16
         : type == Type::kComplexF32 ? Type::kF32
         : type == Type::kComplexF64 ? Type::kF64
                                     : Type::kNone;
}

constexpr bool selected(Compute compute) {
  if (compute == Compute::kDouble) return selected(Type::kF64);
  if (compute == Compute::kFloat) return selected(Type::kF32) || selected(Type::kF16) || selected(Type::kBF16);
  return selected(Type::kU8) || selected(Type::kI8) || selected(Type::kI16) || selected(Type::kI32) ||
         selected(Type::kI64) || selected(Type::kU16) || selected(Type::kU32) || selected(Type::kBool);
}
[[gnu::always_inline]] constexpr Compute compute_of(Type type) {  // inlined even at -Os: see selected
  if (selected(Compute::kDouble) && type == Type::kF64) return Compute::kDouble;
  if (!selected(Compute::kInt)) return Compute::kFloat;
  return is_floating(type) ? Compute::kFloat : Compute::kInt;
}
constexpr int64_t compute_size(Compute compute) { return compute == Compute::kFloat ? 4 : 8; }

template <class C>
constexpr Compute compute_for();
template <>
constexpr Compute compute_for<float>() {
  return Compute::kFloat;
}
template <>
constexpr Compute compute_for<double>() {
  return Compute::kDouble;
}
template <>
constexpr Compute compute_for<int64_t>() {
  return Compute::kInt;
}
// The element type that a compute type is stored as.
constexpr Type storage_of(Compute compute) {
  return compute == Compute::kFloat ? Type::kF32 : compute == Compute::kDouble ? Type::kF64 : Type::kI64;
}

// torch.promote_types; kNone is neutral.
Type promote(Type a, Type b);

// torch.can_cast: no float to integer, nothing but bool to bool.
constexpr bool can_cast(Type from, Type to) {
  return !(is_floating(from) && !is_floating(to)) && !(from != Type::kBool && to == Type::kBool);
}

// torch.result_type of tensors, zero-dimensional tensors and numbers: the three kinds yield to each other in this
// order unless a later one is of a higher category (bool, integer, float).
struct Promotion {
  Type dim = Type::kNone;
  Type zero = Type::kNone;
  Type number = Type::kNone;
  Type result() const;
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_TYPES_H_
