// The text of an Error, for assertions.
#ifndef EDGECORE_TESTS_ERROR_TEXT_H_
#define EDGECORE_TESTS_ERROR_TEXT_H_

#include <string>

#include "edgecore/status.h"

namespace edgecore {

inline std::string text_of(const Error &error) { return {error.text, error.size}; }

}  // namespace edgecore

#endif  // EDGECORE_TESTS_ERROR_TEXT_H_
