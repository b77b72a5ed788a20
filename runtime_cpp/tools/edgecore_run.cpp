// edgecore-run: loads a .pte, runs a method, prints times and outputs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/module.h"
#include "edgecore/scalar_type.h"
#include "npy.h"

namespace edgecore::tools {
namespace {

constexpr char kUsage[] =
    "usage: edgecore-run FILE.pte [--method NAME] [--input FILE.npy|FILE.bin]... [--output-dir DIR]\n"
    "                    [--data FILE.ptd]... [--backend /ABSOLUTE/PATH/OF/LIBRARY]...\n"
    "                    [--backend-path /ABSOLUTE/FOLDER]... [--kernels /ABSOLUTE/PATH/OF/LIBRARY]...\n"
    "                    [--loader MODE] [--threads N] [--runs N] [--trust] [--trace FILE.etdp]\n"
    "  --input         values of the next input: a .npy file, or a .bin file with the bytes of the tensor; inputs\n"
    "                  without a file are all zeros\n"
    "  --output-dir    write the outputs to DIR/output_N.npy\n"
    "  --data          weights that the program keeps outside of its file\n"
    "  --backend       library of a backend; `edgecore backends --json` prints the paths of the installed ones\n"
    "  --backend-path  folder with manifests of backends, as `edgecore backends --manifests FOLDER` writes them; then\n"
    "                  the folders in the environment variable EDGECORE_BACKEND_PATH are searched\n"
    "  --kernels       library of custom operators\n"
    "  --loader        how the files become memory: mmap (the default), file, mmap_use_mlock,\n"
    "                  mmap_use_mlock_ignore_errors or mmap_use_madvise\n"
    "  --trust         accept blobs that the file has no SHA-256 for\n"
    "  --trace         write the times of all instructions as an ETDump\n";

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
  const char *loader = "mmap";
  uint32_t threads = 0;
  uint32_t runs = 1;
  bool trust = false;
};

bool parse_count(const char *text, uint32_t &count) {
  char *end = nullptr;
  const long value = std::strtol(text, &end, 10);
  count = static_cast<uint32_t>(value);
  return *text != '\0' && *end == '\0' && value >= 1 && value <= 1000000;
}

bool parse(int argc, char **argv, Arguments &arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--trust") {
      arguments.trust = true;
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
    } else if (name == "--loader") {
      arguments.loader = argv[i];
    } else if (name == "--trace") {
      arguments.trace = argv[i];
    } else if (name == "--threads") {
      if (!parse_count(argv[i], arguments.threads)) return false;
    } else if (name == "--runs") {
      if (!parse_count(argv[i], arguments.runs)) return false;
    } else {
      return false;
    }
  }
  return arguments.file != nullptr;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

bool ends_with(const std::string &text, const char *end) {
  const size_t size = std::strlen(end);
  return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

// Sets input `index` to the content of `path`, or to zeros (NULL). `array` holds the values: it must live until the
// last run.
Status set_input(Method &method, size_t index, const char *path, Array &array, Error &error) {
  const ValueInfo info = method.info().input(index);
  if (info.tag != EDGECORE_TAG_TENSOR) {
    if (path != nullptr) return fail(error, EDGECORE_NOT_SUPPORTED, "Input ", index, " is no tensor.");
    if (info.tag == EDGECORE_TAG_NONE) return method.set_input_none(index, error);
    if (info.tag == EDGECORE_TAG_DOUBLE) return method.set_input(index, 0.0, error);
    return method.set_input(index, int64_t{0}, error);
  }
  if (path != nullptr && ends_with(path, ".npy")) {
    EDGECORE_TRY(read_npy(path, array, error));
  } else {
    array.scalar_type = info.tensor.scalar_type;
    array.shape.assign(info.tensor.sizes.begin(), info.tensor.sizes.end());
    array.bytes.clear();
    if (path == nullptr) {
      array.bytes.resize(static_cast<size_t>(info.tensor.bytes));
    } else {
      EDGECORE_TRY(read_file(path, array.bytes, error));
    }
  }
  uint64_t bytes = scalar_type_info(array.scalar_type).size;
  for (const int64_t size : array.shape) bytes *= static_cast<uint64_t>(size);
  if (bytes != array.bytes.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, path, " has ", array.bytes.size(), " bytes of data; input ", index,
                " needs ", bytes, ".");
  }
  std::vector<int64_t> strides(array.shape.size());
  int64_t next = 1;
  for (size_t i = strides.size(); i-- > 0; next *= array.shape[i]) strides[i] = next;
  TensorArgument argument;
  argument.data = array.bytes.data();
  argument.scalar_type = array.scalar_type;
  argument.shape = {array.shape.data(), array.shape.size()};
  // A .bin file has no shape; its elements must be in the dim order that the method expects.
  if (path != nullptr && ends_with(path, ".npy")) argument.strides = {strides.data(), strides.size()};
  argument.writable = true;
  return method.set_input(index, argument, error);
}

Status show_output(const Method &method, size_t index, const char *output_dir, Error &error) {
  const edgecore_value &value = method.output(index);
  if (value.tag == EDGECORE_TAG_INT) std::printf("output %zu: %lld\n", index, static_cast<long long>(value.as.i));
  if (value.tag == EDGECORE_TAG_DOUBLE) std::printf("output %zu: %g\n", index, value.as.d);
  if (value.tag == EDGECORE_TAG_BOOL) std::printf("output %zu: %s\n", index, value.as.b != 0 ? "true" : "false");
  if (value.tag != EDGECORE_TAG_TENSOR) return {};
  const edgecore_tensor &tensor = *value.as.tensor;
  const ScalarTypeInfo type = scalar_type_info(tensor.scalar_type);
  const Span<const int64_t> shape(tensor.dl.shape, static_cast<size_t>(tensor.dl.ndim));
  const auto *data = static_cast<const uint8_t *>(tensor.dl.data) + tensor.dl.byte_offset;
  size_t count = 1;
  std::string sizes;
  for (const int64_t size : shape) {
    count *= static_cast<size_t>(size);
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  std::printf("output %zu: %.*s [%s]", index, static_cast<int>(type.name.size()), type.name.data(), sizes.c_str());
  if (type.name == StringView("float32") && count > 0) {
    const auto *values = reinterpret_cast<const float *>(data);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
    std::printf(" min %g max %g mean %g", static_cast<double>(*std::min_element(values, values + count)),
                static_cast<double>(*std::max_element(values, values + count)), sum / static_cast<double>(count));
  }
  std::printf("\n");
  if (output_dir == nullptr) return {};
  for (int32_t i = 0; i < tensor.dl.ndim; ++i) {
    if (tensor.dim_order[i] == i) continue;
    return fail(error, EDGECORE_NOT_SUPPORTED, "Output ", index, " is not row-major and cannot be written.");
  }
  const std::string path = std::string(output_dir) + "/output_" + std::to_string(index) + ".npy";
  return write_npy(path, tensor.scalar_type, shape, {data, count * type.size}, error);
}

// Loads the backends that the file needs and that --backend did not name.
Status find_backends(Module &module, const Arguments &arguments, Error &error) {
  std::vector<std::string> folders = arguments.backend_path;
  for (std::string &folder : backend_path()) folders.push_back(std::move(folder));
  for (const StringView id : module.missing_backends()) {
    const Status found = module.find_backend(id, folders, {}, error);
    if (found.code() == EDGECORE_NOT_FOUND && folders.empty()) {
      return fail(error, EDGECORE_NOT_FOUND, arguments.file, " needs backend '", id,
                  "'; give its library with --backend (`edgecore backends --json` prints the path), or a folder of "
                  "manifests with --backend-path (`edgecore backends --manifests FOLDER` writes them).");
    }
    EDGECORE_TRY(found);
  }
  return {};
}

Status run(const Arguments &arguments, Error &error) {
  const auto start = std::chrono::steady_clock::now();
  Module module;
  const Result<LoadMode> mode = load_mode_of(arguments.loader, error);
  EDGECORE_TRY(mode.status());
  module.set_load_mode(*mode);
  for (const char *data : arguments.data) EDGECORE_TRY(module.add_data(data, error));
  EDGECORE_TRY(module.open(arguments.file, error));
  for (const char *backend : arguments.backends) EDGECORE_TRY(module.load_backend(backend, {}, {}, error));
  EDGECORE_TRY(find_backends(module, arguments, error));
  for (const char *kernels : arguments.kernels) EDGECORE_TRY(module.load_kernels(kernels, error));
  MethodOptions options;
  options.threads = arguments.threads;
  options.trust = arguments.trust;
  options.trace = arguments.trace != nullptr;
  EDGECORE_TRY(module.load_methods(options, error));
  size_t index = 0;
  if (arguments.method != nullptr) {
    const Result<size_t> result = module.program().find_method(arguments.method, error);
    EDGECORE_TRY(result.status());
    index = *result;
  }
  EDGECORE_TRY(module.allocate_outputs(index, error));
  std::printf("load %.3f ms\n", milliseconds_since(start));

  Method &method = module.method(index);
  const size_t input_count = method.info().input_count();
  if (arguments.inputs.size() > input_count) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", method.info().name(), "' takes ", input_count,
                input_count == 1 ? " input; got " : " inputs; got ", arguments.inputs.size(), ".");
  }
  std::vector<Array> arrays(input_count);
  std::vector<double> times;
  for (uint32_t i = 0; i < arguments.runs; ++i) {
    for (size_t j = 0; j < input_count; ++j) {
      const char *path = j < arguments.inputs.size() ? arguments.inputs[j] : nullptr;
      if (i == 0 || method.input_is_copied(j)) EDGECORE_TRY(set_input(method, j, path, arrays[j] = Array(), error));
    }
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
    EDGECORE_TRY(show_output(method, i, arguments.output_dir, error));
  }
  if (arguments.trace != nullptr) EDGECORE_TRY(module.write_trace(arguments.trace, error));
  return {};
}

}  // namespace
}  // namespace edgecore::tools

int main(int argc, char **argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
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
