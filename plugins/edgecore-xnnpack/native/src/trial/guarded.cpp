#include "trial/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace edgecore::xnnpack::trial {

namespace {

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

GuardedMemory::~GuardedMemory() {
  if (pages_ != nullptr) munmap(pages_, size_ + 2 * page_size());
}

uint8_t *GuardedMemory::allocate(size_t bytes, size_t padding, size_t alignment, bool at_start) {
  const size_t page = page_size();
  const size_t need = (bytes + padding + alignment + page - 1) / page * page;
  if (need > size_) {
    if (pages_ != nullptr) munmap(pages_, size_ + 2 * page);
    size_ = need;
    void *pages = mmap(nullptr, size_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages_ = pages == MAP_FAILED ? nullptr : static_cast<uint8_t *>(pages);
    if (pages_ == nullptr || mprotect(pages_ + page, size_, PROT_READ | PROT_WRITE) != 0) {
      if (pages_ != nullptr) munmap(pages_, size_ + 2 * page);
      pages_ = nullptr;
      size_ = 0;
      return nullptr;
    }
  }
  uint8_t *const begin = pages_ + page;
  if (at_start) {
    std::memset(begin, 0xFF, bytes + padding);
    return begin;
  }
  const size_t offset = (size_ - padding - bytes) / alignment * alignment;
  std::memset(begin + offset, 0xFF, size_ - offset);
  return begin + offset;
}

}  // namespace edgecore::xnnpack::trial
