// Runs the kernel tests in src/trial on the kernels that XNNPACK selects with only the processor features in the
// environment variable EDGECORE_XNNPACK_HARDWARE. XNNPACK's own memory (packed weights, workspaces, parameters of
// dynamic quantization) is between guard pages, like the tensors, so accesses out of bounds fault.
//
//   edgecore_xnnpack_kernels [--full|--short] [FAMILY...]   runs the test families (operation and types, such as "tanh
//                                                           f32") whose name contains a FAMILY, or all; exit status
//                                                           1: a result is wrong; 77: not run, because the processor
//                                                           lacks the features
//   edgecore_xnnpack_kernels --hardware                     only prints the features that XNNPACK uses by default
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "edgecore/backend.hpp"
#include "hardware.h"
#include "trial/families.h"

namespace {

using namespace edgecore::xnnpack;

constexpr int kNotRun = 77;

std::mutex mutex;
std::unordered_map<void *, std::pair<std::unique_ptr<trial::GuardedMemory>, size_t>> blocks;

// Allocates memory that ends at a guard page, or a little before it because of the alignment.
void *allocate_aligned(void *, size_t alignment, size_t size) {
  auto guarded = std::make_unique<trial::GuardedMemory>();
  uint8_t *memory = guarded->allocate(size, 0, alignment, false);
  if (memory == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  blocks[memory] = {std::move(guarded), size};
  return memory;
}

void *allocate(void *context, size_t size) { return allocate_aligned(context, alignof(std::max_align_t), size); }

void deallocate(void *, void *memory) {
  const std::lock_guard<std::mutex> lock(mutex);
  blocks.erase(memory);
}

void *reallocate(void *context, void *memory, size_t size) {
  void *grown = allocate(context, size);
  if (grown == nullptr || memory == nullptr) return grown;
  size_t old_size = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    old_size = blocks[memory].second;
  }
  std::memcpy(grown, memory, old_size < size ? old_size : size);
  deallocate(context, memory);
  return grown;
}

bool is_selected(const char *name, int count, char **names) {
  for (int i = 0; i < count; ++i) {
    if (std::strstr(name, names[i]) != nullptr) return true;
  }
  return count == 0;
}

}  // namespace

int main(int count, char **arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  trial::Extent extent = trial::Extent::kQuick;
  int at = 1;
  if (at < count && std::strcmp(arguments[at], "--hardware") == 0) {
    std::printf("%s\n", hardware_names(hardware_in_force().flags).c_str());
    return 0;
  }
  for (; at < count && arguments[at][0] == '-'; ++at) {
    if (std::strcmp(arguments[at], "--full") == 0) extent = trial::Extent::kFull;
    if (std::strcmp(arguments[at], "--short") == 0) extent = trial::Extent::kShort;
  }
  if (const char *hardware = std::getenv("EDGECORE_XNNPACK_HARDWARE")) {
    try {
      restrict_hardware(hardware);
    } catch (const edgecore::backend::Failure &failure) {
      std::printf("%s\n", failure.text.c_str());
      return failure.code == EDGECORE_NOT_SUPPORTED ? kNotRun : 2;
    }
  }
  const xnn_allocator guarded = {nullptr, allocate, reallocate, deallocate, allocate_aligned, deallocate};
  if (xnn_initialize(&guarded) != xnn_status_success) return kNotRun;
  int status = 0;
  for (const trial::Family &family : trial::families()) {
    if (!is_selected(family.name.c_str(), count - at, arguments + at)) continue;
    std::printf("%s\n", family.name.c_str());  // before the run, which may fault
    const trial::Outcome outcome = trial::run(family, extent);
    if (outcome.errors != 0) {
      status = 1;
      std::printf("  WRONG: %llu of %llu; first: %s\n", static_cast<unsigned long long>(outcome.errors),
                  static_cast<unsigned long long>(outcome.cases), outcome.first_error.c_str());
    } else if (outcome.unsupported) {
      std::printf("  no kernels for this processor\n");
    } else {
      std::printf("  %llu right\n", static_cast<unsigned long long>(outcome.cases));
    }
  }
  return status;
}
