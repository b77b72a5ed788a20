// Loads a program and a method in heap memory, for tests.
#ifndef EDGECORE_TESTS_LOADED_H_
#define EDGECORE_TESTS_LOADED_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "edgecore/method.h"
#include "error_text.h"
#include "null_backend.h"
#include "pte_builder.h"
#include "toy_kernels.h"

namespace edgecore {

// Allocates each piece separately on the heap, so that a sanitizer detects accesses past its end. Returns NULL beyond
// `limit` bytes in total.
class HeapAllocator final : public ScratchAllocator {
 public:
  explicit HeapAllocator(size_t limit = size_t{64} << 20) : limit_(limit) {}
  ~HeapAllocator() { reset(); }
  void *allocate(size_t size, size_t alignment) override {
    if (size > limit_ - used_) return nullptr;
    used_ += size;
    void *data = nullptr;
    if (posix_memalign(&data, alignment < sizeof(void *) ? sizeof(void *) : alignment, size == 0 ? 1 : size) != 0) {
      return nullptr;
    }
    memset(data, 0xcd, size);
    blocks_.push_back(data);
    return data;
  }
  void reset() override {
    for (void *block : blocks_) free(block);
    blocks_.clear();
    used_ = 0;
  }
  size_t used() const { return used_; }

 private:
  size_t limit_;
  size_t used_ = 0;
  std::vector<void *> blocks_;
};

// Opens the null backend, a test backend without hardware, for one loaded file. Creates the two handles that a method
// needs to load delegates: the driver (the device, one per process) and the program (one per loaded file).
class NullSession {
 public:
  explicit NullSession(uint32_t flags = 0) : host_(core_services()) {
    backend_.table = null_backend(flags);
    Error error;
    EXPECT_EQ(backend_.table->driver_create(&host_, &scope_, &backend_.driver, &error), EDGECORE_OK);
    edgecore_program_info info = {};
    info.header = header_of<edgecore_program_info>();
    info.scope = &scope_;
    EXPECT_EQ(backend_.table->program_open(backend_.driver, &info, &backend_.program, &error), EDGECORE_OK);
  }
  ~NullSession() {
    backend_.table->program_close(backend_.program);
    backend_.table->driver_destroy(backend_.driver);
  }
  const LoadedBackend &backend() const { return backend_; }

 private:
  edgecore_host host_;
  edgecore_scope scope_;
  LoadedBackend backend_;
};

// A .pte file loaded by the constructor. load_method() then loads its method "forward".
class Loaded {
 public:
  explicit Loaded(const std::vector<uint8_t> &bytes, Limits limits = {}, uint32_t backend_flags = 0)
      : file(bytes), buffer(file.view()), session(backend_flags) {
    load(buffer, limits);
  }
  // Loads a file from the caller's memory, without a copy.
  Loaded(const uint8_t *bytes, size_t size) : file({}), buffer({bytes, size}) { load(buffer, {}); }
  // Loads a file from a loader of the caller.
  explicit Loaded(DataLoader &loader) : file({}), buffer({}) { load(loader, {}); }
  ~Loaded() {
    if (method != nullptr) method->destroy();
  }

  void load(DataLoader &loader, Limits limits) {
    ProgramConfig program_config;
    program_config.allocator = &program_memory;
    program_config.limits = limits;
    const Result<const Program *> loaded = Program::load(loader, program_config, error);
    status = loaded.status();
    program = *loaded;
    config.allocator = &method_memory;
    config.scratch = &scratch;
    config.kernels = libraries;
    config.backends = {&session.backend(), 1};
  }

  bool load_method() {
    if (program == nullptr) return false;
    const Result<Method *> loaded = Method::load(*program, "forward", config, error);
    status = loaded.status();
    method = *loaded;
    return loaded.ok();
  }

  // Sets a float32 input without copying; `data` must outlive the run.
  bool set_floats(size_t index, const std::vector<int64_t> &shape, std::vector<float> &data) {
    TensorArgument tensor;
    tensor.data = data.data();
    tensor.scalar_type = 6;
    tensor.shape = {shape.data(), shape.size()};
    status = method->set_input(index, tensor, error);
    return status.ok();
  }

  bool set_floats_output(size_t index, std::vector<float> &data) {
    status = method->set_output(index, data.data(), data.size() * sizeof(float), error);
    return status.ok();
  }

  bool execute() {
    status = method->execute(error);
    return status.ok();
  }

  std::vector<float> output(size_t index) const {
    const edgecore_value &value = method->output(index);
    EXPECT_EQ(value.tag, EDGECORE_TAG_TENSOR);
    size_t count = 1;
    for (int32_t i = 0; i < value.as.tensor->dl.ndim; ++i) count *= static_cast<size_t>(value.as.tensor->dl.shape[i]);
    const float *data = static_cast<const float *>(value.as.tensor->dl.data);
    return std::vector<float>(data, data + count);
  }

  std::vector<int64_t> shape(size_t index) const {
    const edgecore_tensor &tensor = *method->output(index).as.tensor;
    return std::vector<int64_t>(tensor.dl.shape, tensor.dl.shape + tensor.dl.ndim);
  }

  AlignedBytes file;
  BufferDataLoader buffer;
  NullSession session;
  HeapAllocator state_memory;
  StateStore state{&state_memory};  // for config.state, if the test needs it
  HeapAllocator program_memory, method_memory, scratch;
  const edgecore_kernel_library *libraries[1] = {toy_kernels()};
  MethodConfig config;
  Error error;
  Status status;
  const Program *program = nullptr;
  Method *method = nullptr;
};

// Expects `part` in the error message of a Loaded.
#define EXPECT_SENTENCE(loaded, part) \
  EXPECT_NE(text_of((loaded).error).find(part), std::string::npos) << text_of((loaded).error)

}  // namespace edgecore

#endif  // EDGECORE_TESTS_LOADED_H_
