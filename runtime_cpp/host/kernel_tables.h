// The kernel libraries of a program, and the choice of a kernel if several libraries have one for an operator.
#ifndef EDGECORE_HOST_KERNEL_TABLES_H_
#define EDGECORE_HOST_KERNEL_TABLES_H_

#include <deque>
#include <string>
#include <vector>

#include "edgecore/kernel.h"
#include "edgecore/module.h"

namespace edgecore {

// Added libraries have equal rank: Method::load refuses an operator for which two of them have a kernel. A replacing
// library comes before all earlier libraries, and its kernels fall back to theirs.
class KernelTables {
 public:
  explicit KernelTables(const edgecore_kernel_library *own) : added_{own} {}

  // Adds a library, which must outlive the process's last call of its kernels. Adding it again has no effect.
  void add(const edgecore_kernel_library *library, KernelUse use);
  bool has_kernel(OperatorName op) const;

  // Returns the libraries for MethodConfig::kernels; they live as long as this object. Errors: OUT_OF_RESOURCES (more
  // operators are replaced in this process than kMaxReplaced).
  Result<Span<const edgecore_kernel_library *const>> libraries(Error &error);

  static constexpr size_t kMaxReplaced = 256;

 private:
  // A library with a part of another library's kernels, or with chains in place of kernels.
  struct Table {
    std::vector<edgecore_kernel> kernels;
    edgecore_kernel_library library;
  };

  std::vector<const edgecore_kernel_library *> added_, replacing_;  // `replacing_`: the first has priority
  std::deque<Table> tables_;                                        // earlier results too, because methods use them
  std::vector<const edgecore_kernel_library *> result_;
  bool is_current_ = false;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_KERNEL_TABLES_H_
