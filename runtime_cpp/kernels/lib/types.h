// Dtypes, compute types (in which kernels calculate), and ATen's rules of type promotion.
#ifndef EDGECORE_KERNELS_TYPES_H_
#define EDGECORE_KERNELS_TYPES_H_

#include <stdint.h>

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The dtypes of tensors, numbered like ScalarType in .pte files.
enum class Type : int32_t {
  kU8 = 0,
  kI8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,
  kF32 = 6,
  kF64 = 7,
  kComplexF16 = 8,  // few operators support complex dtypes: see Call::complex_tensor
  kComplexF32 = 9,
  kComplexF64 = 10,
  kBool = 11,
  kBF16 = 15,
  kU16 = 27,
  kU32 = 28,
  kNone = -1,
};

// The types in which kernels calculate: int64 for all integers and bool (a result wraps when it is stored), float for
// fp32, fp16 and bf16, double for fp64.
enum class Compute : int32_t { kFloat = 0, kDouble = 1, kInt = 2 };

// The set of dtypes that this build supports: bit n stands for number n of ScalarType. A build for chosen models
// (edgecore_kernels in CMake) sets only the bits of the dtypes that the models use; the compiler then removes the code
// for other dtypes, and kernels refuse tensors of such dtypes.
#define EDGECORE_ALL_DTYPES 0x18008fff
#ifndef EDGECORE_DTYPES
#define EDGECORE_DTYPES EDGECORE_ALL_DTYPES
#endif
constexpr bool is_in(uint64_t types, Type type) {  // `type` comes from a file: it can be any number
  return static_cast<uint32_t>(type) < 64 && ((types >> static_cast<uint32_t>(type)) & 1) != 0;
}
constexpr bool is_known(Type type) { return is_in(EDGECORE_ALL_DTYPES, type); }
constexpr bool selected(Type type) { return is_in(EDGECORE_DTYPES, type); }

bool is_supported(Type type);  // returns false for dtypes that are not selected and for complex dtypes
int64_t item_size(Type type);  // returns the bytes of an element; 0 for complex dtypes
const char *type_name(Type type);

constexpr bool is_floating(Type type) {
  return type == Type::kF16 || type == Type::kF32 || type == Type::kF64 || type == Type::kBF16;
}
constexpr bool is_integral(Type type) { return !is_floating(type) && type != Type::kBool; }

// Returns the dtype of the real and imaginary parts of a complex dtype; kNone for any other dtype.
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
// Returns the compute type of a dtype. Always inlined, even at -Os, to remove code for types that are not selected.
[[gnu::always_inline]] constexpr Compute compute_of(Type type) {
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
// Calls body(value), where `value` has the compute type of `type`: float, double or int64_t. The number itself is
// meaningless; only its type matters, for a generic lambda.
template <class Body>
void with_compute(Type type, const Body &body) {
  const Compute compute = compute_of(type);
  if (compute == Compute::kFloat) {
    body(float{});
  } else if (compute == Compute::kDouble) {
    body(double{});
  } else {
    body(int64_t{});
  }
}
// Calls body(value) like with_compute, but only for a floating dtype, so that no code for integers is generated.
template <class Body>
void with_floating_compute(Type type, const Body &body) {
  if (selected(Type::kF64) && type == Type::kF64) {
    body(double{});
  } else {
    body(float{});
  }
}

// Returns the dtype whose elements have the C++ type of this compute type, so that such elements need no conversion.
constexpr Type storage_of(Compute compute) {
  return compute == Compute::kFloat ? Type::kF32 : compute == Compute::kDouble ? Type::kF64 : Type::kI64;
}

// Computes torch.promote_types(a, b). kNone is neutral: promote(a, kNone) is a.
Type promote(Type a, Type b);

// Computes torch.can_cast(from, to): false for float to integer or bool, and for integer to bool.
constexpr bool can_cast(Type from, Type to) {
  return !(is_floating(from) && !is_floating(to)) && !(from != Type::kBool && to == Type::kBool);
}

// Computes torch.result_type for operands of three kinds: tensors with dims (`dim`), tensors without dims (`zero`) and
// Python numbers (`number`). Each member is the promoted dtype of the operands of its kind, or kNone. The result is the
// dtype of the first kind that has operands, unless a later kind has a higher category (bool < integer < float).
struct Promotion {
  Type dim = Type::kNone;
  Type zero = Type::kNone;
  Type number = Type::kNone;
  Type result() const;
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_TYPES_H_
