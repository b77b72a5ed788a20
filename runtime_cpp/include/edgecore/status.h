// Errors by value: functions return a code, and write a message into an object that the caller owns.
//
// Every function that can fail has a parameter `Error &` and returns a Status or a Result. The function that detects
// the failure writes the message; the functions that called it only pass the Status on.
#ifndef EDGECORE_STATUS_H_
#define EDGECORE_STATUS_H_

#include <stdint.h>

#include "edgecore/abi.h"
#include "edgecore/processor.h"
#include "edgecore/span.h"

// The error code and message of a failure. The C interface passes this struct as an opaque edgecore_error pointer.
struct edgecore_error {
#if EDGECORE_MICROCONTROLLER
  static constexpr uint32_t kCapacity = 248;
#else
  static constexpr uint32_t kCapacity = 1016;
#endif

  int32_t code = EDGECORE_OK;
  uint32_t size = 0;  // bytes of text; a longer message is cut and ends in "..."
  char text[kCapacity];

  edgecore_error() { text[0] = '\0'; }  // zeroing all 1 KB would cost time, so only the first byte is initialized

  edgecore::StringView sentence() const { return {text, size}; }
  void clear() {
    code = EDGECORE_OK;
    size = 0;
  }
};

namespace edgecore {

using Error = edgecore_error;

// The outcome of a function: EDGECORE_OK, or another EDGECORE_* error code of abi.h. The message is in the Error object
// that the caller passed to the function.
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr explicit Status(int32_t code) : code_(code) {}
  constexpr bool ok() const { return code_ == EDGECORE_OK; }
  constexpr int32_t code() const { return code_; }

 private:
  int32_t code_ = EDGECORE_OK;
};

// The value that a function returns, or the code of its failure. T must be trivially copyable and default constructible
// (pointers, counts, views).
template <typename T>
class [[nodiscard]] Result {
 public:
  constexpr Result(T value) : value_(value) {}
  constexpr Result(Status status) : status_(status) {}
  constexpr bool ok() const { return status_.ok(); }
  constexpr Status status() const { return status_; }
  constexpr T value() const { return value_; }
  constexpr T operator*() const { return value_; }

 private:
  Status status_;
  T value_{};
};

// Appends text to the message of `error`. Replaces control characters, because the text may come from a file and could
// break a log line or a terminal.
void append(Error &error, StringView text);

// Converts the arguments of fail() and extend() to C varargs for fail_with. Integers become 64-bit integers, texts and
// lists become addresses. A string with one letter for each argument (see kind_of) tells fail_with the types. fail() is
// inlined at several hundred places, where one varargs call is less code than one call per argument: tools/sizes.py
// measures 64.5 instead of 73.1 kB for the runtime core.
namespace pieces {

inline const char *pass(const char *text) { return text; }
inline const StringView *pass(const StringView &text) { return &text; }
inline const edgecore_str *pass(const edgecore_str &text) { return &text; }
template <typename T>
const Span<T> *pass(const Span<T> &list) {
  return &list;
}
template <typename Int, typename = decltype(Int{} % 2)>
auto pass(Int value) {
  if constexpr (static_cast<Int>(-1) < Int{}) {
    return static_cast<int64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

constexpr char kind_of(const char *) { return 'c'; }
constexpr char kind_of(const StringView *) { return 't'; }
constexpr char kind_of(const edgecore_str *) { return 's'; }
constexpr char kind_of(int64_t) { return 'i'; }
constexpr char kind_of(uint64_t) { return 'u'; }
constexpr char kind_of(const Span<const int64_t> *) { return '8'; }
constexpr char kind_of(const Span<const int32_t> *) { return '4'; }
constexpr char kind_of(const Span<const uint8_t> *) { return '1'; }

template <char... kinds>
struct Kinds {
  static constexpr char kText[] = {kinds..., 0};
};

}  // namespace pieces

Status fail_with(Error &error, int32_t code, const char *kinds, ...);
Status extend_with(Error &error, const char *kinds, ...);

// Replaces the message of `error` by the items in order, and returns the code as a Status. An item is a text, an
// integer or a list of integers, which is written as "[1, 3, 224]". For example:
//   return fail(error, EDGECORE_INVALID_ARGUMENT, "Input ", index, " has ", n, " bytes.");
template <typename... Pieces>
__attribute__((always_inline)) inline Status fail(Error &error, int32_t code, const Pieces &...items) {
  using Kinds = pieces::Kinds<pieces::kind_of(decltype(pieces::pass(items)){})...>;
  return fail_with(error, code, Kinds::kText, pieces::pass(items)...);
}

// Appends items to the message of `error`, and returns the code of `error`.
template <typename... Pieces>
__attribute__((always_inline)) inline Status extend(Error &error, const Pieces &...items) {
  using Kinds = pieces::Kinds<pieces::kind_of(decltype(pieces::pass(items)){})...>;
  return extend_with(error, Kinds::kText, pieces::pass(items)...);
}

// Evaluates an expression of type Status. If the Status is not OK, returns it from the calling function.
#define EDGECORE_TRY(expression)                               \
  do {                                                         \
    ::edgecore::Status edgecore_try_status = (expression);     \
    if (!edgecore_try_status.ok()) return edgecore_try_status; \
  } while (false)

}  // namespace edgecore

#endif  // EDGECORE_STATUS_H_
