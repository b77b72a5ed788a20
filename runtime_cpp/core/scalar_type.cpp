#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

// DLPack's type codes of the 8-bit floating-point types.
constexpr uint8_t kFloat8E4m3fn = 10;
constexpr uint8_t kFloat8E4m3fnuz = 11;
constexpr uint8_t kFloat8E5m2 = 12;
constexpr uint8_t kFloat8E5m2fnuz = 13;

// A row of the table kRows. The name is an array in the row, because a pointer to a string needs more memory.
struct Row {
  char name[16];
  uint8_t bytes, dlpack_code, dlpack_bits;
};

constexpr int32_t kUnused = 18;  // a ScalarType number that stands for no dtype; 19 to 21 are other such numbers

constexpr Row kRows[] = {
    {"uint8", 1, EDGECORE_DL_UINT, 8},
    {"int8", 1, EDGECORE_DL_INT, 8},
    {"int16", 2, EDGECORE_DL_INT, 16},
    {"int32", 4, EDGECORE_DL_INT, 32},
    {"int64", 8, EDGECORE_DL_INT, 64},
    {"float16", 2, EDGECORE_DL_FLOAT, 16},
    {"float32", 4, EDGECORE_DL_FLOAT, 32},
    {"float64", 8, EDGECORE_DL_FLOAT, 64},
    {"complex32", 4, EDGECORE_DL_COMPLEX, 32},
    {"complex64", 8, EDGECORE_DL_COMPLEX, 64},
    {"complex128", 16, EDGECORE_DL_COMPLEX, 128},
    {"bool", 1, EDGECORE_DL_BOOL, 8},
    {"qint8", 1, EDGECORE_DL_INT, 8},
    {"quint8", 1, EDGECORE_DL_UINT, 8},
    {"qint32", 4, EDGECORE_DL_INT, 32},
    {"bfloat16", 2, EDGECORE_DL_BFLOAT, 16},
    {"quint4x2", 1, EDGECORE_DL_UINT, 8},
    {"quint2x4", 1, EDGECORE_DL_UINT, 8},
    {"unknown", 0, 0, 0},
    {"unknown", 0, 0, 0},
    {"unknown", 0, 0, 0},
    {"unknown", 0, 0, 0},
    {"bits16", 2, EDGECORE_DL_UINT, 16},
    {"float8_e5m2", 1, kFloat8E5m2, 8},
    {"float8_e4m3fn", 1, kFloat8E4m3fn, 8},
    {"float8_e5m2fnuz", 1, kFloat8E5m2fnuz, 8},
    {"float8_e4m3fnuz", 1, kFloat8E4m3fnuz, 8},
    {"uint16", 2, EDGECORE_DL_UINT, 16},
    {"uint32", 4, EDGECORE_DL_UINT, 32},
    {"uint64", 8, EDGECORE_DL_UINT, 64},
};

}  // namespace

ScalarTypeInfo scalar_type_info(int32_t scalar_type) {
  const bool is_known = scalar_type >= 0 && static_cast<size_t>(scalar_type) < sizeof(kRows) / sizeof(Row);
  const Row &row = is_known ? kRows[scalar_type] : kRows[kUnused];
  return {row.name, row.bytes, row.dlpack_code, row.dlpack_bits};
}

}  // namespace edgecore
