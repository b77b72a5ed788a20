#include "host/kernel_tables.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "edgecore/host.h"

namespace edgecore {
namespace {

const edgecore_kernel &kernel_at(const edgecore_kernel_library &library, uint64_t index) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(library.kernels) + index * library.kernel_stride;
  return *reinterpret_cast<const edgecore_kernel *>(bytes);
}

const edgecore_kernel *find(const edgecore_kernel_library &library, OperatorName op) {
  for (uint64_t i = 0; i < library.kernel_count; ++i) {
    const edgecore_kernel &kernel = kernel_at(library, i);
    if (StringView(kernel.name) == op.name && StringView(kernel.overload) == op.overload) return &kernel;
  }
  return nullptr;
}

OperatorName name_of(const edgecore_kernel &kernel) { return {kernel.name, kernel.overload}; }

bool contains(const std::vector<const edgecore_kernel_library *> &libraries, const edgecore_kernel_library *library) {
  return std::find(libraries.begin(), libraries.end(), library) != libraries.end();
}

struct Candidate {
  uint64_t dtypes;
  edgecore_kernel_fn run;
  bool operator==(const Candidate &other) const { return dtypes == other.dtypes && run == other.run; }
};

// The kernels of one operator, in the order in which run_chain tries them. A kernel's function receives no user data,
// so each chain has a separate function that knows its index in `chains`. Like libraries, chains are never freed.
using Chain = std::vector<Candidate>;
std::array<std::atomic<const Chain *>, KernelTables::kMaxReplaced> chains;
std::mutex chains_mutex;

bool supports(uint64_t dtypes, const edgecore_tensor *tensor) {
  if (tensor == nullptr) return true;
  return tensor->scalar_type >= 0 && tensor->scalar_type < 64 && (dtypes >> tensor->scalar_type & 1) != 0;
}

// Returns true if the kernel supports the dtypes of all tensors of the call.
bool supports(const Candidate &kernel, const edgecore_call &call) {
  for (uint64_t i = 0; i < call.arg_count; ++i) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(call.args) + i * call.arg_stride;
    const auto &value = *reinterpret_cast<const edgecore_value *>(bytes);
    if (value.tag == EDGECORE_TAG_TENSOR && !supports(kernel.dtypes, value.as.tensor)) return false;
    for (uint64_t j = 0; value.tag == EDGECORE_TAG_TENSOR_LIST && j < value.as.list->count; ++j) {
      if (!supports(kernel.dtypes, value.as.list->items.tensors[j])) return false;
    }
  }
  return true;
}

// Calls the kernels that support the call's dtypes in order, until a kernel's status is not NOT_SUPPORTED. The last
// kernel is called even if it does not support the dtypes, so that the kernel's own error is reported.
int32_t run_chain(const Chain &chain, const edgecore_call *call) {
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    if (!supports(chain[i], *call)) continue;
    const int32_t code = chain[i].run(call);
    if (code != EDGECORE_NOT_SUPPORTED) return code;
    if (call->error != nullptr) call->error->clear();
  }
  return chain.back().run(call);
}

template <size_t index>
int32_t EDGECORE_CALL run_replaced(const edgecore_call *call) {
  return run_chain(*chains[index].load(std::memory_order_acquire), call);
}

template <size_t... indices>
constexpr std::array<edgecore_kernel_fn, sizeof...(indices)> make_functions(std::index_sequence<indices...>) {
  return {run_replaced<indices>...};
}
constexpr auto kFunctions = make_functions(std::make_index_sequence<KernelTables::kMaxReplaced>());

// Returns a function for an edgecore_kernel that runs the chain. Chains with the same kernels share a function.
Result<edgecore_kernel_fn> function_of(Chain chain, Error &error) {
  if (chain.size() == 1) return chain[0].run;
  const std::lock_guard<std::mutex> lock(chains_mutex);
  for (size_t i = 0; i < chains.size(); ++i) {
    const Chain *used = chains[i].load(std::memory_order_relaxed);
    if (used != nullptr && *used != chain) continue;
    if (used == nullptr) chains[i].store(new Chain(std::move(chain)), std::memory_order_release);
    return kFunctions[i];
  }
  return fail(error, EDGECORE_OUT_OF_RESOURCES, "More than ", KernelTables::kMaxReplaced,
              " operators have replaced kernels in this process.");
}

}  // namespace

void KernelTables::add(const edgecore_kernel_library *library, KernelUse use) {
  if (contains(added_, library) || contains(replacing_, library)) return;
  if (use == KernelUse::kAdd) {
    added_.push_back(library);
  } else {
    replacing_.insert(replacing_.begin(), library);
  }
  is_current_ = false;
}

bool KernelTables::has_kernel(OperatorName op) const {
  const auto has = [&](const edgecore_kernel_library *library) { return find(*library, op) != nullptr; };
  return std::any_of(added_.begin(), added_.end(), has) || std::any_of(replacing_.begin(), replacing_.end(), has);
}

Result<Span<const edgecore_kernel_library *const>> KernelTables::libraries(Error &error) {
  if (replacing_.empty()) return Span<const edgecore_kernel_library *const>(added_.data(), added_.size());
  const auto finish = [](Table &table, const edgecore_kernel_library &source) {
    table.library = source;
    table.library.kernels = table.kernels.data();
    table.library.kernel_count = table.kernels.size();
    table.library.kernel_stride = sizeof(edgecore_kernel);
  };
  if (!is_current_) {
    result_.clear();
    for (size_t i = 0; i < replacing_.size(); ++i) {
      Table &table = tables_.emplace_back();
      for (uint64_t k = 0; k < replacing_[i]->kernel_count; ++k) {
        edgecore_kernel kernel = kernel_at(*replacing_[i], k);
        const OperatorName op = name_of(kernel);
        const auto before = replacing_.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::any_of(replacing_.begin(), before, [&](auto *library) { return find(*library, op) != nullptr; })) {
          continue;  // skip: the chain of an earlier replacing library already contains this kernel
        }
        Chain chain;
        for (const auto *libraries : {&replacing_, &added_}) {
          for (const edgecore_kernel_library *library : *libraries) {
            const edgecore_kernel *found = find(*library, op);
            if (found != nullptr) chain.push_back({found->dtypes, found->run});
          }
        }
        const Result<edgecore_kernel_fn> run = function_of(std::move(chain), error);
        EDGECORE_TRY(run.status());
        kernel.run = *run;
        table.kernels.push_back(kernel);
      }
      finish(table, *replacing_[i]);
      table.library.flags &= ~EDGECORE_KERNELS_SELECTED;  // for other dtypes, the chain calls its next kernel
      result_.push_back(&table.library);
    }
    for (const edgecore_kernel_library *library : added_) {
      Table &table = tables_.emplace_back();
      for (uint64_t k = 0; k < library->kernel_count; ++k) {
        const edgecore_kernel &kernel = kernel_at(*library, k);
        const auto replaces = [&](auto *other) { return find(*other, name_of(kernel)) != nullptr; };
        if (std::none_of(replacing_.begin(), replacing_.end(), replaces)) table.kernels.push_back(kernel);
      }
      finish(table, *library);
      result_.push_back(&table.library);
    }
    is_current_ = true;
  }
  return Span<const edgecore_kernel_library *const>(result_.data(), result_.size());
}

}  // namespace edgecore
