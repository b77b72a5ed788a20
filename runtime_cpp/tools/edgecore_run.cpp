// The command edgecore-run: loads a .pte file, runs a method, and prints times and outputs.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"
#include "edgecore/module.h"
#include "host/library.h"
#include "values.h"
#include "verify.h"

namespace edgecore::tools {
namespace {

constexpr char kUsage[] =
    "usage: edgecore-run FILE.pte [--method NAME] [--input FILE.npy|FILE.bin|VALUE]... [--output-dir DIR]\n"
    "                    [--data FILE.ptd]... [--backend /ABSOLUTE/PATH/OF/LIBRARY]...\n"
    "                    [--backend-path /ABSOLUTE/FOLDER]... [--kernels /ABSOLUTE/PATH/OF/LIBRARY]...\n"
    "                    [--option BACKEND:KEY=VALUE]... [--loader MODE] [--threads N] [--runs N] [--trust]\n"
    "                    [--separate-state] [--trace FILE.etdp] [--trace-level LEVEL] [--trace-limit BYTES]\n"
    "                    [--debug LEVEL --debug-buffer FILE] [--debug-limit BYTES]\n"
    "       edgecore-run FILE.bpte --verify [--method NAME] [--rtol R] [--atol A] [options for loading, as above]\n"
    "       edgecore-run FILE.pte --calls FILE.txt [--output-dir DIR] [options for loading, as above]\n"
    "       edgecore-run FILE.pte --records FILE.ectr --trace FILE.etdp\n"
    "  --input         values of the next input: a .npy file, or a .bin file with the bytes of the tensor; for an "
    "input\n"
    "                  that is no tensor a number, true, false or none; inputs without a value are all zeros\n"
    "  --output-dir    write the outputs, also numbers and lists, to DIR/output_N.npy\n"
    "  --verify        run the test cases of a .bpte file, and compare the outputs with the expected ones: they may\n"
    "                  differ by A + R * |expected|; by default both are 1e-5; integers must be equal\n"
    "  --data          weights that the program keeps outside of its file\n"
    "  --backend       library of a backend; `edgecore backends --json` prints the paths of the installed ones\n"
    "  --backend-path  folder with manifests of backends, as `edgecore backends --manifests FOLDER` writes them; then\n"
    "                  the folders in the environment variable EDGECORE_BACKEND_PATH are searched\n"
    "  --kernels       library of custom operators\n"
    "  --loader        how the files become memory: mmap (the default), file, mmap_use_mlock,\n"
    "                  mmap_use_mlock_ignore_errors or mmap_use_madvise\n"
    "  --option        option of a backend for loading; a VALUE that is true, false or a number is passed as such,\n"
    "                  one in double quotes as a string, and one that begins with [ as a list\n"
    "  --trust         accept blobs that the file has no SHA-256 for\n"
    "  --separate-state  the methods share no mutable buffers\n"
    "  --trace         write times as an ETDump\n"
    "  --trace-level   what has times: calls (runs), operators (also instructions and operations of delegates; the\n"
    "                  default) or threads (also each thread in each parallel loop)\n"
    "  --trace-limit   memory for the events, 32 bytes each; the oldest are dropped; by default 67108864; each method\n"
    "                  keeps at least 1024 events\n"
    "  --debug         values that the trace holds beside times: outputs, or values (also those of all operators, and\n"
    "                  of the operations inside of delegates whose backends report them); --debug-buffer gets the "
    "bytes\n"
    "  --debug-limit   memory for these values; those that do not fit are left out; by default 268435456\n"
    "  --records       do not run anything: convert the records of a device's trace (edgecore/trace_buffer.h)\n"
    "  --calls         make the calls in a file, one a line, also after one that failed; print `call N: ok` or\n"
    "                  `call N: failed: REASON` (N counts from 0), and write outputs to DIR/call_N_output_M.npy:\n"
    "                    call METHOD [FILE.npy|FILE.bin|VALUE]...   run a method\n"
    "                    reset                                restore the initial state\n"
    "                    export FILE, import FILE             save and restore the state\n"
    "                    session N                            go on in session N; 0 is the first one\n";

struct Arguments {
  const char *file = nullptr;
  const char *method = nullptr;
  const char *output_dir = nullptr;
  std::vector<const char *> inputs;
  std::vector<const char *> data;
  std::vector<const char *> backends;
  std::vector<std::string> backend_path;
  std::vector<const char *> kernels;
  const char *trace = nullptr;
  TraceLevel trace_level = TraceLevel::kOperators;
  uint64_t trace_limit = kTraceLimit;
  DebugLevel debug = DebugLevel::kNone;
  const char *debug_buffer = nullptr;
  uint64_t debug_limit = kDebugLimit;
  const char *loader = "mmap";
  const char *calls = nullptr;
  const char *records = nullptr;
  std::vector<const char *> options;
  bool separate_state = false;
  uint32_t threads = 0;
  uint32_t runs = 1;
  bool trust = false;
  bool verify = false;
  bool has_tolerance = false;
  Tolerance tolerance;
};

bool parse_count(const char *text, uint32_t &count) {
  char *end = nullptr;
  const long value = std::strtol(text, &end, 10);
  count = static_cast<uint32_t>(value);
  return *text != '\0' && *end == '\0' && value >= 1 && value <= 1000000;
}

bool parse_tolerance(const char *text, double &tolerance) {
  char *end = nullptr;
  tolerance = std::strtod(text, &end);
  return end != text && *end == '\0' && tolerance >= 0;
}

bool parse_level(const std::string &text, TraceLevel &level) {
  constexpr const char *kLevels[] = {"calls", "operators", "threads"};
  const auto *found = std::find(std::begin(kLevels), std::end(kLevels), text);
  level = static_cast<TraceLevel>(found - kLevels);
  return found != std::end(kLevels);
}

bool parse_debug(const std::string &text, DebugLevel &level) {
  level = text == "outputs" ? DebugLevel::kOutputs : text == "values" ? DebugLevel::kValues : DebugLevel::kNone;
  return level != DebugLevel::kNone;
}

bool parse_bytes(const char *text, uint64_t limit, uint64_t &bytes) {
  char *end = nullptr;
  bytes = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && bytes <= limit;
}

bool parse(int argc, char **argv, Arguments &arguments) {
  size_t options = 0;
  bool needs_trace = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name.compare(0, 2, "--") == 0) ++options;
    needs_trace = needs_trace || name == "--records" || name == "--trace-level" || name == "--trace-limit" ||
                  name.compare(0, 7, "--debug") == 0;
    if (name == "--trust") {
      arguments.trust = true;
    } else if (name == "--separate-state") {
      arguments.separate_state = true;
    } else if (name == "--verify") {
      arguments.verify = true;
    } else if (name.compare(0, 2, "--") != 0) {
      if (arguments.file != nullptr) return false;
      arguments.file = argv[i];
    } else if (++i == argc) {
      return false;
    } else if (name == "--method") {
      arguments.method = argv[i];
    } else if (name == "--input") {
      arguments.inputs.push_back(argv[i]);
    } else if (name == "--output-dir") {
      arguments.output_dir = argv[i];
    } else if (name == "--data") {
      arguments.data.push_back(argv[i]);
    } else if (name == "--backend") {
      arguments.backends.push_back(argv[i]);
    } else if (name == "--backend-path") {
      arguments.backend_path.emplace_back(argv[i]);
    } else if (name == "--kernels") {
      arguments.kernels.push_back(argv[i]);
    } else if (name == "--option") {
      arguments.options.push_back(argv[i]);
    } else if (name == "--calls") {
      arguments.calls = argv[i];
    } else if (name == "--records") {
      arguments.records = argv[i];
    } else if (name == "--rtol" || name == "--atol") {
      Tolerance &tolerance = arguments.tolerance;
      if (!parse_tolerance(argv[i], name == "--rtol" ? tolerance.relative : tolerance.absolute)) return false;
      arguments.has_tolerance = true;
    } else if (name == "--loader") {
      arguments.loader = argv[i];
    } else if (name == "--trace") {
      arguments.trace = argv[i];
    } else if (name == "--trace-level") {
      if (!parse_level(argv[i], arguments.trace_level)) return false;
    } else if (name == "--trace-limit") {
      if (!parse_bytes(argv[i], kMaxTraceLimit, arguments.trace_limit)) return false;
    } else if (name == "--debug") {
      if (!parse_debug(argv[i], arguments.debug)) return false;
    } else if (name == "--debug-buffer") {
      arguments.debug_buffer = argv[i];
    } else if (name == "--debug-limit") {
      if (!parse_bytes(argv[i], UINT64_MAX, arguments.debug_limit)) return false;
    } else if (name == "--threads") {
      if (!parse_count(argv[i], arguments.threads)) return false;
    } else if (name == "--runs") {
      if (!parse_count(argv[i], arguments.runs)) return false;
    } else {
      return false;
    }
  }
  const bool one_method = arguments.method != nullptr || !arguments.inputs.empty() || arguments.runs != 1;
  const bool one_run = !arguments.inputs.empty() || arguments.runs != 1 || arguments.output_dir != nullptr;
  if (needs_trace && arguments.trace == nullptr) return false;
  if (arguments.has_tolerance && !arguments.verify) return false;
  if (arguments.verify && (arguments.calls != nullptr || one_run)) return false;
  if ((arguments.debug != DebugLevel::kNone) != (arguments.debug_buffer != nullptr)) return false;
  if (arguments.records != nullptr && options != 2) return false;  // with --records, only --trace may be given
  return arguments.file != nullptr && !(arguments.calls != nullptr && one_method);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Returns a backend option. The text `value` determines its type (bool, integer, string, ...). The option points to the
// two texts.
edgecore_option to_option(StringView name, const char *value) {
  edgecore_option option = {};
  option.name = {name.data(), name.size()};
  const StringView text(value);
  char *end = nullptr;
  if (text == StringView("true") || text == StringView("false")) {
    option.type = EDGECORE_OPTION_BOOL;
    option.value.i = text == StringView("true") ? 1 : 0;
  } else if (text.size() >= 2 && *value == '"' && value[text.size() - 1] == '"') {
    option.type = EDGECORE_OPTION_STRING;
    option.value.bytes = {reinterpret_cast<const uint8_t *>(value) + 1, text.size() - 2};
  } else if (errno = 0, option.value.i = std::strtoll(value, &end, 10); end != value && *end == '\0' && errno == 0) {
    option.type = EDGECORE_OPTION_INT;
  } else if (option.value.d = std::strtod(value, &end); end != value && *end == '\0') {
    option.type = EDGECORE_OPTION_FLOAT;
  } else {
    option.type = text.size() > 0 && *value == '[' ? EDGECORE_OPTION_LIST : EDGECORE_OPTION_STRING;
    option.value.bytes = {reinterpret_cast<const uint8_t *>(value), text.size()};
  }
  return option;
}

// Appends the command's --option arguments for the backend `backend_id` to `options`.
Status options_of(StringView backend_id, const Arguments &arguments, std::vector<edgecore_option> &options,
                  Error &error) {
  for (const char *text : arguments.options) {
    const char *colon = std::strchr(text, ':');
    const char *equals = colon != nullptr ? std::strchr(colon, '=') : nullptr;
    if (equals == nullptr) return fail(error, EDGECORE_INVALID_ARGUMENT, text, " is not BACKEND:KEY=VALUE.");
    if (StringView(text, static_cast<size_t>(colon - text)) != backend_id) continue;
    options.push_back(to_option({colon + 1, static_cast<size_t>(equals - colon - 1)}, equals + 1));
  }
  return {};
}

// Loads the library of a backend (--backend), and appends the backend's id to `ids`.
Status load_backend(Module &module, const char *path, const Arguments &arguments, std::vector<StringView> &ids,
                    Error &error) {
  const Result<const edgecore_backend *> table = load_backend_library(path, {}, error);
  EDGECORE_TRY(table.status());
  const StringView id = (*table)->backend_id;
  std::vector<edgecore_option> options;
  EDGECORE_TRY(options_of(id, arguments, options, error));
  ids.push_back(id);
  return module.load_backend(path, id, {options.data(), options.size()}, error);
}

// Loads the backends that the file needs and that no --backend argument named. Appends their ids to `ids`.
Status find_backends(Module &module, const Arguments &arguments, std::vector<StringView> &ids, Error &error) {
  std::vector<std::string> folders = arguments.backend_path;
  for (std::string &folder : backend_path()) folders.push_back(std::move(folder));
  for (const StringView id : module.missing_backends()) {
    std::vector<edgecore_option> options;
    EDGECORE_TRY(options_of(id, arguments, options, error));
    const Status found = module.find_backend(id, folders, {options.data(), options.size()}, error);
    if (found.code() == EDGECORE_NOT_FOUND && folders.empty()) {
      return fail(error, EDGECORE_NOT_FOUND, arguments.file, " needs backend '", id,
                  "'; give its library with --backend (`edgecore backends --json` prints the path), or a folder of "
                  "manifests with --backend-path (`edgecore backends --manifests FOLDER` writes them).");
    }
    EDGECORE_TRY(found);
    ids.push_back(id);
  }
  return {};
}

// Checks that each --option argument is for one of the backends `ids`.
Status check_options(const Arguments &arguments, const std::vector<StringView> &ids, Error &error) {
  for (const std::string option : arguments.options) {
    const auto is_for = [&](StringView id) { return option.rfind(std::string(id.data(), id.size()) + ":", 0) == 0; };
    if (std::any_of(ids.begin(), ids.end(), is_for)) continue;
    return fail(error, EDGECORE_INVALID_ARGUMENT, "--option ", option.c_str(), ": no backend of this name is loaded.");
  }
  return {};
}

// Loads the file, the backends and the methods.
Status load(Module &module, const Arguments &arguments, Error &error) {
  const Result<LoadMode> mode = load_mode_of(arguments.loader, error);
  EDGECORE_TRY(mode.status());
  module.set_load_mode(*mode);
  for (const char *data : arguments.data) EDGECORE_TRY(module.add_data(data, error));
  EDGECORE_TRY(module.open(arguments.file, error));
  std::vector<StringView> ids;
  for (const char *backend : arguments.backends) EDGECORE_TRY(load_backend(module, backend, arguments, ids, error));
  EDGECORE_TRY(find_backends(module, arguments, ids, error));
  EDGECORE_TRY(check_options(arguments, ids, error));
  for (const char *kernels : arguments.kernels) EDGECORE_TRY(module.load_kernels(kernels, error));
  MethodOptions options;
  options.threads = arguments.threads;
  options.trust = arguments.trust;
  options.trace = arguments.trace != nullptr;
  options.trace_level = arguments.trace_level;
  options.trace_limit = arguments.trace_limit;
  options.debug = arguments.debug;
  options.debug_limit = arguments.debug_limit;
  if (arguments.separate_state) options.sharing = StateSharing::kNone;
  return module.load_methods(options, error);
}

// Loads and runs one method, and prints times and outputs.
Status run_method(Module &module, const Arguments &arguments, Error &error) {
  const auto start = std::chrono::steady_clock::now();
  EDGECORE_TRY(load(module, arguments, error));
  size_t index = 0;
  if (arguments.method != nullptr) {
    const Result<size_t> result = module.program().find_method(arguments.method, error);
    EDGECORE_TRY(result.status());
    index = *result;
  }
  EDGECORE_TRY(module.allocate_outputs(index, error));
  std::printf("load %.3f ms\n", milliseconds_since(start));

  Method &method = module.method(index);
  std::vector<Array> arrays;
  std::vector<double> times;
  for (uint32_t i = 0; i < arguments.runs; ++i) {
    EDGECORE_TRY(set_inputs(method, arguments.inputs, i == 0, arrays, error));
    const auto begin = std::chrono::steady_clock::now();
    EDGECORE_TRY(method.execute(error));
    times.push_back(milliseconds_since(begin));
  }
  std::printf("first run %.3f ms\n", times[0]);
  if (times.size() > 1) {
    std::sort(times.begin() + 1, times.end());
    const size_t count = times.size() - 1;
    std::printf("median of %zu further runs %.3f ms, min %.3f ms\n", count, times[1 + count / 2], times[1]);
  }
  for (size_t i = 0; i < method.info().output_count(); ++i) {
    print_output(method, i);
    if (arguments.output_dir != nullptr) {
      EDGECORE_TRY(write_output(method, i, std::string(arguments.output_dir) + "/output_", error));
    }
  }
  return {};
}

// Converts the trace records of another device to an ETDump file.
Status convert(const Arguments &arguments, Error &error) {
  Module module;
  EDGECORE_TRY(module.open(arguments.file, error));
  std::unique_ptr<SystemDataLoader> records;
  EDGECORE_TRY(open_file(arguments.records, LoadMode::kFile, records, error));
  const Result<Bytes> bytes = records->load(0, static_cast<size_t>(records->size()), LoadUse::kTables, error);
  EDGECORE_TRY(bytes.status());
  return module.convert_trace(*bytes, arguments.trace, error);
}

Status run(const Arguments &arguments, Error &error) {
  if (arguments.records != nullptr) return convert(arguments, error);
  Module module;
  if (arguments.verify) {
    EDGECORE_TRY(load(module, arguments, error));
    EDGECORE_TRY(verify(module, arguments.file, arguments.method, arguments.tolerance, error));
  } else if (arguments.calls == nullptr) {
    EDGECORE_TRY(run_method(module, arguments, error));
  } else {
    EDGECORE_TRY(load(module, arguments, error));
    const Status called = make_calls(module, arguments.calls, arguments.output_dir, error);
    if (!called.ok() && arguments.trace != nullptr) {
      Error unused;  // report the failed call, not an error of write_trace
      (void)module.write_trace(arguments.trace, arguments.debug_buffer, unused);
    }
    EDGECORE_TRY(called);
  }
  return arguments.trace != nullptr ? module.write_trace(arguments.trace, arguments.debug_buffer, error) : Status();
}

}  // namespace
}  // namespace edgecore::tools

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") != 0) continue;
    std::fputs(edgecore::tools::kUsage, stdout);
    return 0;
  }
  edgecore::tools::Arguments arguments;
  if (!edgecore::tools::parse(argc, argv, arguments)) {
    std::fputs(edgecore::tools::kUsage, stderr);
    return 2;
  }
  edgecore::Error error;
  if (edgecore::tools::run(arguments, error).ok()) return 0;
  std::fprintf(stderr, "edgecore-run: %.*s\n", static_cast<int>(error.size), error.text);
  return 1;
}
