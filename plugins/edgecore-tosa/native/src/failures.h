// Converts failures of the reference model to exceptions.
//
// Arm's libraries report a problem as text on stderr or stdout. After some problems they continue with undefined
// values; after others they start gdb, or end the process. A Supervisor collects the text in a string instead, and ends
// the call at the first problem. For this purpose, failures.cpp replaces functions that the libraries call;
// CMakeLists.txt lists the replaced functions.
#ifndef EDGECORE_TOSA_FAILURES_H_
#define EDGECORE_TOSA_FAILURES_H_

#include <csetjmp>
#include <stdexcept>
#include <string>

namespace edgecore::tosa {

// An error for the user: a code from simulator.h, and one sentence.
class Failure : public std::runtime_error {
 public:
  Failure(int number, const std::string &text) : std::runtime_error(text), code(number) {}
  const int code;
};

// Collects the reports of Arm's libraries on this thread during its lifetime. Call the libraries only through `call`.
class Supervisor {
 public:
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor &) = delete;
  Supervisor &operator=(const Supervisor &) = delete;

  // Calls `body`. Throws Failure(code, message) if a library reports an error.
  template <typename Body>
  void call(int code, const Body &body) {
    bool completed = false;
    try {
      completed = returns(body);
    } catch (const Stop &) {
      // text_ contains the error message of the library.
    }
    if (!completed) throw Failure(code, problem());
  }

  // Returns the error that a library has reported, as a sentence.
  std::string problem() const;

 private:
  friend struct Hooks;
  struct Stop {};  // thrown if the stack frames of Arm's library can be unwound

  // Returns false if a library tried to end the process in a function that cannot be unwound. The objects of the
  // library and of `body` are then leaked. This is a separate function because setjmp leaves changed local variables of
  // its caller undefined.
  template <typename Body>
  bool returns(const Body &body) {
    if (setjmp(end_) != 0) return false;
    body();
    return true;
  }

  std::jmp_buf end_;
  std::string text_;
  const int rounding_;
};

}  // namespace edgecore::tosa

#endif
