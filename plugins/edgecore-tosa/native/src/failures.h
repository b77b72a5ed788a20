// Failures of the reference model as exceptions.
//
// Arm's libraries report a problem as text on stderr or stdout. After some problems they go on with undefined values;
// after others they start gdb, or end the process. Here their text goes into a string, and each problem ends the call:
// CMakeLists.txt lists functions that they call, and in whose place failures.cpp has others.
#ifndef EDGECORE_TOSA_FAILURES_H_
#define EDGECORE_TOSA_FAILURES_H_

#include <csetjmp>
#include <stdexcept>
#include <string>

namespace edgecore::tosa {

// An error for the user: a code of simulator.h, and one sentence.
class Failure : public std::runtime_error {
 public:
  Failure(int number, const std::string &text) : std::runtime_error(text), code(number) {}
  const int code;
};

// Collects what Arm's libraries report on this thread while it lives. They are called through `call`.
class Supervisor {
 public:
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor &) = delete;
  Supervisor &operator=(const Supervisor &) = delete;

  // Calls `body`; throws Failure(code, the problem) if a library reports one.
  template <typename Body>
  void call(int code, const Body &body) {
    bool completed = false;
    try {
      completed = returns(body);
    } catch (const Stop &) {
      // The text has the problem.
    }
    if (!completed) throw Failure(code, problem());
  }

  // The problem that a library has reported, as a sentence.
  std::string problem() const;

 private:
  friend struct Hooks;
  struct Stop {};  // thrown where a library can be unwound

  // Returns false if a library tried to end the process, where it cannot be unwound: the objects that it and `body`
  // have made are lost. A function of its own, since setjmp leaves changed variables of the function that calls it
  // undefined.
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
