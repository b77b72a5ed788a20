#include "lib/types.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

bool is_supported(Type type) { return item_size(type) != 0 && selected(type); }

int64_t item_size(Type type) {
  switch (type) {
    case Type::kU8:
    case Type::kI8:
    case Type::kBool:
      return 1;
    case Type::kI16:
    case Type::kU16:
    case Type::kF16:
    case Type::kBF16:
      return 2;
    case Type::kI32:
    case Type::kU32:
    case Type::kF32:
      return 4;
    case Type::kI64:
    case Type::kF64:
      return 8;
    default:
      return 0;
  }
}

const char *type_name(Type type) {
  switch (type) {
    case Type::kU8:
      return "uint8";
    case Type::kI8:
      return "int8";
    case Type::kI16:
      return "int16";
    case Type::kI32:
      return "int32";
    case Type::kI64:
      return "int64";
    case Type::kF16:
      return "float16";
    case Type::kF32:
      return "float32";
    case Type::kComplexF16:
      return "complex32";
    case Type::kComplexF32:
      return "complex64";
    case Type::kComplexF64:
      return "complex128";
    case Type::kF64:
      return "float64";
    case Type::kBool:
      return "bool";
    case Type::kBF16:
      return "bfloat16";
    case Type::kU16:
      return "uint16";
    case Type::kU32:
      return "uint32";
    default:
      return "an unsupported dtype";
  }
}

Type promote(Type a, Type b) {
  if (a == b || b == Type::kNone) return a;
  if (a == Type::kNone) return b;
  if (a == Type::kBool) return b;
  if (b == Type::kBool) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  const int64_t size_a = item_size(a);
  const int64_t size_b = item_size(b);
  if (is_floating(a)) {
    if (size_a != size_b) return size_a > size_b ? a : b;
    return Type::kF32;  // the promoted dtype of fp16 and bf16 is float32
  }
  if (size_a == size_b) {  // an unsigned and a signed type of the same width: both fit the next wider signed type
    return size_a == 1 ? Type::kI16 : size_a == 2 ? Type::kI32 : Type::kI64;
  }
  const Type wide = size_a > size_b ? a : b;
  const Type narrow = size_a > size_b ? b : a;
  if (wide == Type::kU16 && narrow == Type::kI8) return Type::kI32;
  if (wide == Type::kU32 && (narrow == Type::kI8 || narrow == Type::kI16)) return Type::kI64;
  return wide;
}

// Returns the result dtype of operands of two kinds, such as tensors and numbers. `higher` is the dtype of the kind
// that has priority.
static Type combine(Type higher, Type lower) {
  if (is_floating(higher)) return higher;
  if (higher == Type::kNone) return lower;
  if (higher == Type::kBool || (lower != Type::kNone && is_floating(lower))) return promote(higher, lower);
  return higher;
}

Type Promotion::result() const { return combine(dim, combine(zero, number)); }

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
