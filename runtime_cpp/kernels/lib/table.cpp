// Defines the table of the kernels compiled for one instruction set (EDGECORE_VARIANT: baseline, avx2 or avx512). The
// function that returns the table is the only one outside of the instruction set's namespace.
#include "edgecore/kernel.h"
#include "lib/types.h"

#define EDGECORE_JOIN2(a, b) a##b
#define EDGECORE_JOIN(a, b) EDGECORE_JOIN2(a, b)

namespace edgecore {
inline namespace EDGECORE_VARIANT {

#define EDGECORE_OPERATOR(name, overload, function, dtypes) int32_t function(const edgecore_call *);
#include "operators.inc"
#undef EDGECORE_OPERATOR

namespace {

constexpr uint64_t bit(Type type) { return uint64_t{1} << static_cast<int>(type); }
constexpr uint64_t kFloats = bit(Type::kF16) | bit(Type::kBF16) | bit(Type::kF32) | bit(Type::kF64);
constexpr uint64_t kIntegers = bit(Type::kU8) | bit(Type::kI8) | bit(Type::kI16) | bit(Type::kI32) | bit(Type::kI64) |
                               bit(Type::kU16) | bit(Type::kU32) | bit(Type::kBool);
constexpr uint64_t kComplex = bit(Type::kComplexF16) | bit(Type::kComplexF32) | bit(Type::kComplexF64);
constexpr uint64_t kAll = kFloats | kIntegers;

template <uint64_t N>
constexpr edgecore_str literal(const char (&text)[N]) {
  return {text, N - 1};
}

constexpr edgecore_header kKernelHeader = {sizeof(edgecore_kernel), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};

constexpr edgecore_kernel kKernels[] = {
#define EDGECORE_OPERATOR(name, overload, function, dtypes) \
  {kKernelHeader, literal(name), literal(overload), dtypes, &function},
#include "operators.inc"
#undef EDGECORE_OPERATOR
};

constexpr edgecore_kernel_library kLibrary = {{sizeof(edgecore_kernel_library), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
                                              literal("edgecore"),
                                              literal(EDGECORE_VERSION),
                                              kKernels,
                                              sizeof(kKernels) / sizeof(kKernels[0]),
                                              sizeof(edgecore_kernel),
                                              0};

}  // namespace
}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

extern "C" const edgecore_kernel_library *EDGECORE_JOIN(edgecore_kernels_, EDGECORE_VARIANT)(void) {
  return &edgecore::EDGECORE_VARIANT::kLibrary;
}
