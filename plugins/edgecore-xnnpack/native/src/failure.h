// How functions of the delegate report what is wrong: they return false after filling in a Failure.
#ifndef EDGECORE_XNNPACK_FAILURE_H_
#define EDGECORE_XNNPACK_FAILURE_H_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "edgecore/abi.h"

namespace edgecore::xnnpack {

class Failure {
 public:
  int32_t code = EDGECORE_OK;
  char text[512] = {};

  // Always returns false, for `return failure->Set(...)`.
  __attribute__((format(printf, 3, 4))) bool Set(int32_t error, const char *format, ...) {
    code = error;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return false;
  }

  edgecore_str str() const { return {text, std::strlen(text)}; }
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_FAILURE_H_
