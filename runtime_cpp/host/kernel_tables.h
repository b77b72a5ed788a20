// The kernel libraries of a program, and which kernel an operator gets if several libraries have one.
#ifndef EDGECORE_HOST_KERNEL_TABLES_H_
#define EDGECORE_HOST_KERNEL_TABLES_H_

#include <deque>
#include <string>
#include <vector>

#include "edgecore/kernel.h"
#include "edgecore/module.h"

namespace edgecore {

// Libraries that are added have the same rank: Method::load refuses an operator that two of them have. A library that
// replaces kernels comes before all that were there, and its kernels fall back to theirs.
class KernelTables {
 public:
  explicit KernelTables(const edgecore_kernel_library *own) : added_{own} {}

  // Take a library, which must outlive the process's last call of its kernels; the second time nothing happens.
  void add(const edgecore_kernel_library *library, KernelUse use);
  bool has_kernel(OperatorName op) const;

  // Returns the libraries for MethodConfig::kernels; they live as long as this object. Errors: OUT_OF_RESOURCES (more
  // operators are replaced in this process than kMaxReplaced).
  Result<Span<const edgecore_kernel_library *const>> libraries(Error &error);

  static constexpr size_t kMaxReplaced = 256;

 private:
  // A library that has some of the kernels of another one, or calls them in another way.
  struct Table {
    std::vector<edgecore_kernel> kernels;
    edgecore_kernel_library library;
  };

  std::vector<const edgecore_kernel_library *> added_, replacing_;  // `replacing_`: the first goes first
  std::deque<Table> tables_;                                        // earlier results too, which methods use
  std::vector<const edgecore_kernel_library *> result_;
  bool is_current_ = false;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_KERNEL_TABLES_H_
