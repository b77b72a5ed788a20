#include "verify.h"

#include <cstdio>

#include "edgecore/file_data_loader.h"

namespace edgecore::tools {
namespace {

struct Counts {
  size_t passed = 0, failed = 0, unchecked = 0;
};

void print_failure(const char *method, size_t index, const Error &error) {
  std::printf("FAILED %s, case %zu: %.*s\n", method, index, static_cast<int>(error.size), error.text);
}

// Runs a test case of a .bpte file, prints its results, and counts it in `counts`.
void run_case(Module &module, const BundledCases &cases, const char *method, size_t index, const Tolerance &tolerance,
              Counts &counts) {
  Error error;
  std::vector<Value> outputs, expected;
  if (!load_bundled_input(module, cases, method, index, error).ok() ||
      !module.execute(method, {}, outputs, error).ok() ||
      !cases.expected_outputs(method, index, expected, error).ok()) {
    ++counts.failed;
    print_failure(method, index, error);
    return;
  }
  if (expected.empty()) {
    ++counts.unchecked;
    std::printf("RAN    %s, case %zu: no outputs to compare with\n", method, index);
    return;
  }
  if (expected.size() != outputs.size()) {
    (void)verify_method_outputs(outputs, cases, method, index, tolerance, error);
    ++counts.failed;
    print_failure(method, index, error);
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Difference difference;
    if (check_close(outputs[i], expected[i], tolerance, error, &difference).ok()) {
      ++counts.passed;
      std::printf("ok     %s, case %zu, output %zu: max abs error %.3g, max rel error %.3g\n", method, index, i,
                  difference.max_absolute, difference.max_relative);
    } else {
      ++counts.failed;
      std::printf("FAILED %s, case %zu, output %zu: %.*s\n", method, index, i, static_cast<int>(error.size),
                  error.text);
    }
  }
}

}  // namespace

Status verify(Module &module, const char *path, const char *method, const Tolerance &tolerance, Error &error) {
  std::unique_ptr<SystemDataLoader> file;
  EDGECORE_TRY(open_file(path, LoadMode::kFile, file, error));
  const Result<Bytes> bytes = file->load(0, static_cast<size_t>(file->size()), LoadUse::kTables, error);
  EDGECORE_TRY(bytes.status());
  BundledCases cases;
  EDGECORE_TRY(cases.open(*bytes, default_limits(), error));
  Counts counts;
  for (const std::string &name : cases.methods()) {
    if (method != nullptr && name != method) continue;
    for (size_t i = 0; i < cases.count(name.c_str()); ++i) {
      run_case(module, cases, name.c_str(), i, tolerance, counts);
    }
  }
  file->release(*bytes);
  if (counts.passed + counts.failed + counts.unchecked == 0) {
    return fail(error, EDGECORE_NOT_FOUND, path, " has no test case",
                method == nullptr ? "" : " for the method that --method names", ".");
  }
  std::printf("%zu outputs passed, %zu failed; tolerance %g + %g * |expected|\n", counts.passed, counts.failed,
              tolerance.absolute, tolerance.relative);
  if (counts.failed == 0 && counts.passed != 0) return {};
  return fail(error, EDGECORE_INVALID_STATE,
              counts.failed == 0 ? "No output was compared: the test cases have no expected outputs."
                                 : "Outputs differ from the expected ones.");
}

}  // namespace edgecore::tools
