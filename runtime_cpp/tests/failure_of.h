// Returns the message of a Failure, the exception of edgecore/backend.hpp.
#ifndef EDGECORE_TESTS_FAILURE_OF_H_
#define EDGECORE_TESTS_FAILURE_OF_H_

#include <string>

#include "edgecore/byte_reader.hpp"

// Calls `body`; returns the message of its Failure, or an empty text if it throws none.
template <typename Body>
std::string failure_of(const Body &body) {
  try {
    body();
  } catch (const edgecore::backend::Failure &failure) {
    return failure.text;
  }
  return "";
}

#endif  // EDGECORE_TESTS_FAILURE_OF_H_
