#include "failures.h"

#include <cfenv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "func_debug.h"

namespace edgecore_tosa {
namespace {

constexpr size_t kMaxText = 65536;
thread_local Supervisor *supervisor = nullptr;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

struct Hooks {
  static void print(const char *format, va_list arguments) {
    char line[2048];
    if (supervisor == nullptr || supervisor->text_.size() > kMaxText) return;
    if (std::vsnprintf(line, sizeof line, format, arguments) > 0) supervisor->text_ += line;
  }

  [[noreturn]] static void unwind() { throw Supervisor::Stop(); }

  [[noreturn]] static void jump() {
    std::longjmp(supervisor->end_, 1);
  }
};

// An operator that fails may leave another rounding mode behind.
Supervisor::Supervisor() : rounding_(std::fegetround()) { supervisor = this; }

Supervisor::~Supervisor() {
  supervisor = nullptr;
  std::fesetround(rounding_);
}

std::string Supervisor::problem() const {
  // "ERROR_IF() fails AT file:line function(): (condition)", then the problem; or "ERROR: problem".
  std::istringstream lines(text_);
  std::string last = "no reason was given";
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last = line;
    if (line.rfind("ERROR: ", 0) == 0) return line.substr(7);
    if (!contains(line, "fails AT ") && !contains(line, "ERROR AT ") && !contains(line, "ASSERTION AT ")) continue;
    std::string next;
    return std::getline(lines, next) && !next.empty() ? next : line;
  }
  return last;
}

}  // namespace edgecore_tosa

using edgecore_tosa::Hooks;

// In the place of those of the reference model, which start gdb. It calls func_print_backtrace after it has printed a
// problem, and then returns an error, or ends the process.

void func_print_backtrace(FILE *, int) { Hooks::unwind(); }

void func_debug_warning(func_debug_t *, const char *, const char *, int, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Hooks::print(format, arguments);
  va_end(arguments);
}

int func_debug_t::fini_debug() { return 0; }

// The linker's option --wrap sends calls of `name` to `__wrap_name`.
extern "C" {

int __wrap___fprintf_chk(FILE *, int, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Hooks::print(format, arguments);
  va_end(arguments);
  // The last line before exit(): a violated requirement, after which the result would be undefined.
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

// The C library declares abort as a function that throws nothing, so its callers cannot be unwound.
[[noreturn]] void __wrap_abort() { Hooks::jump(); }

// A check of an index in the C++ library, with which Arm's libraries are compiled.
[[noreturn]] void __wrap__ZSt21__glibcxx_assert_failPKciS0_S0_(const char *, int, const char *, const char *) {
  Hooks::jump();
}
}
