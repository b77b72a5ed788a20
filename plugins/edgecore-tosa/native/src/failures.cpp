#include "failures.h"

#include <cfenv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace edgecore::tosa {
namespace {

constexpr size_t kMaxText = 65536;
constexpr std::string_view kError = "ERROR: ", kFunction = "(): ";
thread_local Supervisor *supervisor = nullptr;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

struct Hooks {
  static void print(std::string_view text) {
    if (supervisor != nullptr && supervisor->text_.size() < kMaxText) supervisor->text_ += text;
  }

  static void print(const char *format, va_list arguments) {
    char text[2048];
    if (std::vsnprintf(text, sizeof text, format, arguments) > 0) print(text);
  }

  [[noreturn]] static void unwind() { throw Supervisor::Stop(); }

  [[noreturn]] static void jump() { std::longjmp(supervisor->end_, 1); }
};

// Saves the floating-point rounding mode, because a failing operator may leave it changed.
Supervisor::Supervisor() : rounding_(std::fegetround()) { supervisor = this; }

Supervisor::~Supervisor() {
  supervisor = nullptr;
  std::fesetround(rounding_);
}

std::string Supervisor::problem() const {
  // The reference model prints for a missing operator: "... could not allocate op ABS input=(BOOL rank 2) ->
  // (...)SubgraphTraverser::..."
  constexpr std::string_view kMissing = "could not allocate op";
  size_t start = text_.find(kMissing);
  if (start != text_.npos) {
    start = text_.find_first_not_of(' ', start + kMissing.size());
    return "the reference model has no operator " + text_.substr(start, text_.find("SubgraphTraverser", start) - start);
  }
  // The reference model prints for a failed check: "ERROR_IF() fails AT file:line function(): (condition)", then a line
  // that explains the condition.
  std::istringstream lines(text_);
  std::string last = "the reference model gives no reason";
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last = line;
    if (line.rfind(kError, 0) == 0) return line.substr(kError.size());
    if (!contains(line, "fails AT ") && !contains(line, "ERROR AT ") && !contains(line, "ASSERTION AT ")) continue;
    if (std::getline(lines, last) && !last.empty()) break;
    const size_t condition = line.find(kFunction);
    return "a check of the reference model fails: " +
           line.substr(condition == line.npos ? 0 : condition + kFunction.size());
  }
  // The reference model prints for any other error: "SubgraphTraverser::validateGraph(): message".
  const size_t function = last.find(kFunction);
  return function < last.find(' ') ? last.substr(function + kFunction.size()) : last;
}

}  // namespace edgecore::tosa

using edgecore::tosa::Hooks;

// The linker's option --wrap redirects calls of `name` to `__wrap_name`; C++ names are mangled.
extern "C" {

// Replaces func_print_backtrace, which starts gdb. The reference model calls it after printing a problem, and then
// returns an error or ends the process.
[[noreturn]] void __wrap__Z20func_print_backtraceP8_IO_FILEi(FILE *, int) { Hooks::unwind(); }

// Replaces func_debug_warning, with which the reference model prints warnings.
void __wrap__Z18func_debug_warningP12func_debug_tPKcS2_iS2_z(void *, const char *, const char *, int,
                                                             const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Hooks::print(format, arguments);
  va_end(arguments);
}

// Replaces GraphNode::printNodeValidationError(const std::string &), which reports an operator with wrong inputs,
// outputs or attributes.
[[noreturn]] void
__wrap__ZN13TosaReference9GraphNode24printNodeValidationErrorERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    void *, const std::string &problem) {
  Hooks::print(edgecore::tosa::kError);
  Hooks::print(problem);
  Hooks::unwind();
}

int __wrap___fprintf_chk(FILE *, int, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Hooks::print(format, arguments);
  va_end(arguments);
  // The reference model prints this line before exit() if a requirement is violated, that is, if the result would be
  // undefined.
  if (std::string_view(format).rfind("Terminated early", 0) == 0) Hooks::unwind();
  return 0;
}

int __wrap___printf_chk(int, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Hooks::print(format, arguments);
  va_end(arguments);
  return 0;
}

int __wrap_printf(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Hooks::print(format, arguments);
  va_end(arguments);
  return 0;
}

int __wrap_fputs(const char *, FILE *) { return 0; }

// Leave abort by a jump (longjmp), because an exception could not unwind the callers: compilers assume that abort does
// not throw.
[[noreturn]] void __wrap_abort() { Hooks::jump(); }

// Replaces std::__glibcxx_assert_fail, which the C++ library calls if an index is out of bounds: Arm's libraries are
// compiled with these checks.
[[noreturn]] void __wrap__ZSt21__glibcxx_assert_failPKciS0_S0_(const char *, int, const char *, const char *condition) {
  Hooks::print(edgecore::tosa::kError);
  Hooks::print("a check of the reference model fails: ");
  Hooks::print(std::string_view(condition));
  Hooks::jump();
}
}
