// Chooses the kernel of an operator if several kernel libraries of a program have a kernel for the operator.
#ifndef EDGECORE_HOST_KERNEL_TABLES_H_
#define EDGECORE_HOST_KERNEL_TABLES_H_

#include <deque>
#include <string>
#include <vector>

#include "edgecore/kernel.h"
#include "edgecore/module.h"

namespace edgecore {

// The kernel libraries of a program. Added libraries have equal priority: Method::load refuses an operator for which
// two added libraries have a kernel. A replacing library has priority over all earlier libraries: their kernels run
// only for calls that the kernels of the replacing library do not support.
class KernelTables {
 public:
  explicit KernelTables(const edgecore_kernel_library *own) : added_{own} {}

  // Adds a library. Its kernels must stay valid as long as any method may call them. Adding a library again has no
  // effect.
  void add(const edgecore_kernel_library *library, KernelUse use);
  bool has_kernel(OperatorName op) const;

  // Returns the libraries for MethodConfig::kernels, which live as long as this object. Errors: OUT_OF_RESOURCES (more
  // than kMaxReplaced operators have been replaced in this process).
  Result<Span<const edgecore_kernel_library *const>> libraries(Error &error);

  static constexpr size_t kMaxReplaced = 256;

 private:
  // A copy of a library's table. In the copy, some kernels are left out, or replaced by functions that run chains.
  struct Table {
    std::vector<edgecore_kernel> kernels;
    edgecore_kernel_library library;
  };

  std::vector<const edgecore_kernel_library *> added_, replacing_;  // replacing_: highest priority first
  std::deque<Table> tables_;  // tables are kept until the end, because methods use them
  std::vector<const edgecore_kernel_library *> result_;
  bool is_current_ = false;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_KERNEL_TABLES_H_
