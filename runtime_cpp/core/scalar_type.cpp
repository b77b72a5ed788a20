#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

// DLPack's codes of the 8-bit floats.
constexpr uint8_t kFloat8E4m3fn = 10;
constexpr uint8_t kFloat8E4m3fnuz = 11;
constexpr uint8_t kFloat8E5m2 = 12;
constexpr uint8_t kFloat8E5m2fnuz = 13;

}  // namespace

ScalarTypeInfo scalar_type_info(int32_t scalar_type) {
  switch (scalar_type) {
    case 0:
      return {"uint8", 1, EDGECORE_DL_UINT, 8};
    case 1:
      return {"int8", 1, EDGECORE_DL_INT, 8};
    case 2:
      return {"int16", 2, EDGECORE_DL_INT, 16};
    case 3:
      return {"int32", 4, EDGECORE_DL_INT, 32};
    case 4:
      return {"int64", 8, EDGECORE_DL_INT, 64};
    case 5:
      return {"float16", 2, EDGECORE_DL_FLOAT, 16};
    case 6:
      return {"float32", 4, EDGECORE_DL_FLOAT, 32};
    case 7:
      return {"float64", 8, EDGECORE_DL_FLOAT, 64};
    case 8:
      return {"complex32", 4, EDGECORE_DL_COMPLEX, 32};
    case 9:
      return {"complex64", 8, EDGECORE_DL_COMPLEX, 64};
    case 10:
      return {"complex128", 16, EDGECORE_DL_COMPLEX, 128};
    case 11:
      return {"bool", 1, EDGECORE_DL_BOOL, 8};
    case 12:
      return {"qint8", 1, EDGECORE_DL_INT, 8};
    case 13:
      return {"quint8", 1, EDGECORE_DL_UINT, 8};
    case 14:
      return {"qint32", 4, EDGECORE_DL_INT, 32};
    case 15:
      return {"bfloat16", 2, EDGECORE_DL_BFLOAT, 16};
    case 16:
      return {"quint4x2", 1, EDGECORE_DL_UINT, 8};
    case 17:
      return {"quint2x4", 1, EDGECORE_DL_UINT, 8};
    case 22:
      return {"bits16", 2, EDGECORE_DL_UINT, 16};
    case 23:
      return {"float8_e5m2", 1, kFloat8E5m2, 8};
    case 24:
      return {"float8_e4m3fn", 1, kFloat8E4m3fn, 8};
    case 25:
      return {"float8_e5m2fnuz", 1, kFloat8E5m2fnuz, 8};
    case 26:
      return {"float8_e4m3fnuz", 1, kFloat8E4m3fnuz, 8};
    case 27:
      return {"uint16", 2, EDGECORE_DL_UINT, 16};
    case 28:
      return {"uint32", 4, EDGECORE_DL_UINT, 32};
    case 29:
      return {"uint64", 8, EDGECORE_DL_UINT, 64};
    default:
      return {"unknown", 0, 0, 0};
  }
}

}  // namespace edgecore
