// backend.h for C++17: a backend as four classes, whose members throw when they fail. Header-only. It needs exceptions,
// so firmware that is compiled without exceptions uses backend.h itself.
//
//   struct Driver   { explicit Driver(const Host &); };
//   struct Program  { Program(Driver &, const Host &, const Options &); };
//   struct Delegate { Delegate(Program &, const Host &, const edgecore_delegate_info &);
//                     uint64_t argument_count() const noexcept; };
//   struct Instance { Instance(Delegate &, const Host &);
//                     std::vector<edgecore_memory_need> prepare(const Arguments &);
//                     void execute(const Arguments &, const Memory &); };
//
//   extern "C" EDGECORE_BACKEND(acme) {
//     static const edgecore_backend table = make_table<Driver, Program, Delegate, Instance>(
//         {"AcmeBackend", "edgecore-acme", "1.0", EDGECORE_HOST_THREADS | EDGECORE_VALIDATES_BLOBS});
//     return &table;
//   }
//
// Optional members:
// - `static void Driver::probe(const Host &)`.
// - `int32_t Driver::check_compatibility(std::string_view)` returns EDGECORE_COMPATIBLE or _RECOMPILE, or throws: the
//   blob cannot run; see check_format.
// - `void Delegate::buffer_requirement(uint64_t, edgecore_buffer_requirement &) const noexcept`.
// - The constructor of Instance may have a third parameter `const edgecore_instance_info &`, which holds the instance's
//   flags and state set.
// - `int32_t Instance::run(const edgecore_execute_info &, const Arguments &)` replaces `execute`: it returns
//   EDGECORE_OK or EDGECORE_PENDING; see PendingRun. Memory(info) gives access to the memory blocks of the call.
//
// make_table sets no functions for device buffers: a backend that has device buffers assigns its functions to the
// table. Such a function finds the C++ object behind a handle with get<Program>(handle). If a member throws, the host
// receives the exception's code and message. backend.h states the rules for threads.
//
// A backend that keeps mutable buffers of the model, such as a KV cache, has a fifth class: HostState, if the buffers
// are in host memory, or a class with the same public members except `add`. The constructor of Instance takes the
// buffers' memory from the HostState. Example: a buffer of float32 (ScalarType 6) with shape [1, 8, 64], so 2048 bytes.
//
//   Instance(Delegate &delegate, const Host &, const edgecore_instance_info &info)
//       : cache(state_set<HostState>(info).add("cache.k", 6, {1, 8, 64}, 2048, delegate.initial)) {}
#ifndef EDGECORE_BACKEND_HPP_
#define EDGECORE_BACKEND_HPP_

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "edgecore/backend.h"
#include "edgecore/byte_reader.hpp"
#include "edgecore/host_state.hpp"
#include "edgecore/load_options.hpp"
#include "edgecore/pending_run.hpp"

namespace edgecore::backend {

// The exception for a failed service of the host. It carries only the code, because the service has already stored the
// error message.
struct Reported {
  int32_t code;
};

// The services of the host for one handle (driver, program, delegate or instance). Cheap to copy; valid as long as the
// handle.
class Host {
 public:
  Host(const edgecore_host *table, edgecore_scope *scope) : table_(table), scope_(scope) {}

  const edgecore_host *table() const { return table_; }
  edgecore_scope *scope() const { return scope_; }

  void log(int32_t level, std::string_view text) const { table_->log(scope_, level, to_str(text)); }

  // Splits the items [0, n) into ranges of at least `grain` items, and calls body(begin, end, worker) for each range on
  // the method's threads. If a call of `body` throws, parallel_for throws the first exception after all ranges are
  // done. May be called only with the Host of an instance.
  template <typename Body>
  void parallel_for(uint64_t n, uint64_t grain, const Body &body) const {
    Loop<Body> loop{&body, {false}, {}};
    table_->parallel_for(scope_, n, grain, Loop<Body>::run, &loop, 0);
    if (loop.error) std::rethrow_exception(loop.error);
  }
  uint32_t worker_count() const { return table_->worker_count(scope_); }
  // Returns the index of the calling worker inside parallel_for, and 0 outside.
  uint32_t worker_index() const { return table_->worker_index(scope_); }

  // Adds a profile event that has ended. Times are nanoseconds since the start of the current execute or prepare.
  // `debug_id` is a key of the debug_handle_map that preprocess (the backend's compiler) returned, or -1. May be called
  // only with the Host of an instance.
  void add_event(std::string_view name, int64_t debug_id, uint64_t begin, uint64_t end) const {
    if (table_->event_add != nullptr) table_->event_add(scope_, to_str(name), debug_id, begin, end);
  }

  // Passes to the host a value that an operation has computed; the host copies it. The elements are dense; `shape`
  // lists the dims from outermost to innermost in memory. If the graph has another order of the dims, preprocess
  // returns that order in value_dim_orders. `debug_id` has the same meaning as in add_event. `scalar_type` is a number
  // of the .pte's ScalarType; `code` (EDGECORE_DL_*) and `bits` are the same type in DLPack. May be called only in
  // execute, with the Host of an instance that has EDGECORE_INSTANCE_VALUES.
  void add_value(std::string_view name, int64_t debug_id, int32_t scalar_type, uint8_t code, uint8_t bits,
                 const std::vector<int64_t> &shape, const void *data) const {
    const size_t rank = shape.size();
    std::vector<int64_t> sizes(shape), strides(rank);
    std::vector<uint8_t> dim_order(rank);
    int64_t elements = 1;
    for (size_t i = rank; i-- > 0; elements *= sizes[i]) {
      strides[i] = elements;
      dim_order[i] = static_cast<uint8_t>(i);
    }
    edgecore_tensor tensor = {};
    tensor.header = {sizeof(tensor), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
    tensor.flags = EDGECORE_TENSOR_READ_ONLY;
    tensor.scalar_type = scalar_type;
    tensor.dl.data = const_cast<void *>(data);
    tensor.dl.device_type = EDGECORE_DEVICE_CPU;
    tensor.dl.ndim = static_cast<int32_t>(rank);
    tensor.dl.dtype = {code, bits, 1};
    tensor.dl.shape = sizes.data();
    tensor.dl.strides = strides.data();
    tensor.dim_order = dim_order.data();
    tensor.max_shape = sizes.data();
    tensor.capacity = static_cast<uint64_t>(elements) * bits / 8;
    table_->event_value(scope_, to_str(name), debug_id, &tensor);
  }

  // Returns the bytes stored under `key` in the .pte file or in a loaded .ptd file, valid until the program is closed,
  // or nullopt if there is no such key.
  std::optional<edgecore_bytes> find_named_data(std::string_view key) const {
    edgecore_bytes bytes = {};
    if (table_->named_data(scope_, to_str(key), &bytes, nullptr) != EDGECORE_OK) return std::nullopt;
    return bytes;
  }

  // Returns the bytes stored under `key`, like find_named_data; throws a Failure if there is no such key.
  edgecore_bytes named_data(std::string_view key) const {
    if (const std::optional<edgecore_bytes> bytes = find_named_data(key)) return *bytes;
    fail(EDGECORE_NOT_FOUND, "the file holds no data '%.*s'; if it is in a .ptd file, load that file with the program",
         static_cast<int>(key.size()), key.data());
  }

 private:
  template <typename Body>
  struct Loop {
    const Body *body;
    std::atomic<bool> failed;
    std::exception_ptr error;
    static void EDGECORE_CALL run(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
      Loop &loop = *static_cast<Loop *>(arg);
      try {
        (*loop.body)(begin, end, worker);
      } catch (...) {
        if (!loop.failed.exchange(true)) loop.error = std::current_exception();
      }
    }
  };

  const edgecore_host *table_;
  edgecore_scope *scope_;
};

// Records a profile event that lasts from the construction to the destruction of this object. Costs one comparison if
// the method is not traced. `debug_id` is a key of the debug_handle_map that preprocess (the backend's compiler)
// returned.
class Event {
 public:
  Event(const Host &host, std::string_view name, int64_t debug_id) : host_(host) {
    if (host.table()->event_begin != nullptr) event_ = host.table()->event_begin(host.scope(), to_str(name), debug_id);
  }
  ~Event() {
    if (host_.table()->event_end != nullptr) host_.table()->event_end(host_.scope(), event_);
  }
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;

 private:
  const Host &host_;
  uint64_t event_ = 0;
};

// The arguments of one prepare or execute: inputs, then outputs. make_table checks the number of arguments.
class Arguments {
 public:
  Arguments(const Host &host, const edgecore_value *args, uint64_t count, uint32_t stride, edgecore_error *error)
      : host_(host), args_(args), count_(count), stride_(stride), error_(error) {}

  uint64_t size() const { return count_; }

  const edgecore_value &value(uint64_t index) const {
    if (index >= count_) fail(EDGECORE_INVALID_ARGUMENT, "the call has no argument %llu", number(index));
    return *reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(args_) + index * stride_);
  }

  // Returns tensor argument `index`, in host memory or in memory of the device. Throws if the argument is not a tensor.
  edgecore_tensor &any_tensor(uint64_t index) const {
    const edgecore_value &argument = value(index);
    if (argument.tag != EDGECORE_TAG_TENSOR) {
      fail(EDGECORE_INVALID_ARGUMENT, "argument %llu is no tensor", number(index));
    }
    return *argument.as.tensor;
  }

  // Returns tensor argument `index`. Throws if the argument is not a tensor in host memory.
  edgecore_tensor &tensor(uint64_t index) const {
    edgecore_tensor &argument = any_tensor(index);
    if (argument.buffer != nullptr || argument.dl.device_type != EDGECORE_DEVICE_CPU) {
      fail(EDGECORE_INVALID_ARGUMENT, "argument %llu must be a tensor in host memory", number(index));
    }
    return argument;
  }

  // Returns tensor argument `index`, in host memory. Throws if the tensor has another dtype (`code` is EDGECORE_DL_*)
  // or rank, or if its elements are not in row-major order without gaps.
  edgecore_tensor &tensor(uint64_t index, uint8_t code, uint8_t bits, int32_t rank) const {
    edgecore_tensor &argument = tensor(index);
    const edgecore_dl_dtype dtype = argument.dl.dtype;
    if (dtype.code != code || dtype.bits != bits || dtype.lanes != 1) {
      fail(EDGECORE_INVALID_TYPE, "argument %llu has a dtype of code %d and %d bits instead of code %d and %d bits",
           number(index), dtype.code, dtype.bits, code, bits);
    }
    if (argument.dl.ndim != rank) {
      fail(EDGECORE_INVALID_ARGUMENT, "argument %llu has %d dims instead of %d", number(index), argument.dl.ndim, rank);
    }
    for (int32_t d = 0; d < rank; ++d) {
      if (argument.dim_order[d] == d) continue;
      fail(EDGECORE_INVALID_ARGUMENT, "argument %llu is not contiguous in the order of its dims", number(index));
    }
    return argument;
  }

  // Throws if the shape of tensor argument `index` is not `shape`. The caller must have checked the rank.
  void check_shape(uint64_t index, const std::vector<int64_t> &shape) const {
    const int64_t *sizes = any_tensor(index).dl.shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (sizes[d] == shape[d]) continue;
      fail(EDGECORE_INVALID_ARGUMENT, "argument %llu has size %lld in dim %zu instead of %lld", number(index),
           static_cast<long long>(sizes[d]), d, static_cast<long long>(shape[d]));
    }
  }

  // Returns the address of the elements of tensor argument `index`. The address may be NULL in prepare, which needs no
  // data.
  template <typename Element>
  Element *data(uint64_t index) const {
    const edgecore_dl_tensor &dl = tensor(index).dl;
    if (dl.data == nullptr) return nullptr;
    return reinterpret_cast<Element *>(static_cast<char *>(dl.data) + dl.byte_offset);
  }

  // Sets the shape of an output. prepare must call resize for each output, even if the shape is right already, because
  // resize also refuses read-only outputs. May be called only by an instance.
  void resize(uint64_t index, const int64_t *shape, int32_t rank) const {
    const int32_t code = host_.table()->resize(host_.scope(), &any_tensor(index), shape, rank, error_);
    if (code != EDGECORE_OK) throw Reported{code};
  }

 private:
  static unsigned long long number(uint64_t index) { return index; }

  Host host_;
  const edgecore_value *args_;
  uint64_t count_;
  uint32_t stride_;
  edgecore_error *error_;
};

// The memory blocks that execute receives, one for each memory need that the last prepare returned, in the same order.
class Memory {
 public:
  explicit Memory(const edgecore_execute_info &info) : info_(info) {}

  void *operator[](uint64_t need) const {
    if (need >= info_.memory_count) fail(EDGECORE_INTERNAL, "the host gave no memory for a need");
    return info_.memory[need].data;
  }

 private:
  const edgecore_execute_info &info_;
};

// Returns a request for host memory, to be returned by prepare. `kind` is EDGECORE_MEMORY_*.
constexpr edgecore_memory_need memory_need(uint32_t kind, uint64_t bytes, uint64_t alignment = 16) {
  return {header<edgecore_memory_need>(), kind, 0, bytes, alignment, {nullptr, 0}};
}

// The names and flags of a backend, for make_table. The texts are not copied: pass string literals. `flags` must have
// exactly one of the three EDGECORE_*_THREADS, and exactly one of EDGECORE_VALIDATES_BLOBS and
// EDGECORE_NEEDS_TRUSTED_BLOBS.
struct Declaration {
  const char *backend_id;
  const char *distribution;
  const char *version;
  uint32_t flags;
};

namespace detail {

template <typename Object>
struct Handle {
  Host host;
  Object object;
};

template <typename Instance>
struct InstanceHandle : Handle<Instance> {
  uint64_t argument_count;
  std::vector<edgecore_memory_need> needs;

  Arguments arguments(const edgecore_value *args, uint64_t count, uint32_t stride, edgecore_error *error) const {
    if (count != argument_count) {
      fail(EDGECORE_INVALID_ARGUMENT, "%llu arguments instead of %llu", static_cast<unsigned long long>(count),
           static_cast<unsigned long long>(argument_count));
    }
    return Arguments(this->host, args, count, stride, error);
  }
};

// Calls `body` and returns the code that `body` returns. Converts an exception to a code and, through host->fail, a
// message, because exceptions must not reach the host, which may be C.
template <typename Body>
int32_t guard(const edgecore_host *host, edgecore_error *error, const Body &body) noexcept {
  try {
    return body();
  } catch (const Reported &reported) {
    return reported.code;
  } catch (const Failure &failure) {
    return host->fail(error, failure.code, to_str(failure.text));
  } catch (const std::bad_alloc &) {
    return host->fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, to_str("out of memory"));
  } catch (const std::exception &exception) {
    return host->fail(error, EDGECORE_INTERNAL, to_str(exception.what()));
  } catch (...) {
    return host->fail(error, EDGECORE_INTERNAL, to_str("an exception that is no std::exception"));
  }
}

template <typename T, typename = void>
struct HasProbe : std::false_type {};
template <typename T>
struct HasProbe<T, std::void_t<decltype(T::probe(std::declval<const Host &>()))>> : std::true_type {};
template <typename T, typename = void>
struct HasCheck : std::false_type {};
template <typename T>
struct HasCheck<T, std::void_t<decltype(std::declval<T &>().check_compatibility(std::string_view()))>>
    : std::true_type {};
template <typename T, typename = void>
struct HasRun : std::false_type {};
template <typename T>
struct HasRun<T, std::void_t<decltype(std::declval<T &>().run(std::declval<const edgecore_execute_info &>(),
                                                              std::declval<const Arguments &>()))>> : std::true_type {};
template <typename T, typename = void>
struct HasRequirement : std::false_type {};
template <typename T>
struct HasRequirement<T, std::void_t<decltype(std::declval<T &>().buffer_requirement(
                             uint64_t(), std::declval<edgecore_buffer_requirement &>()))>> : std::true_type {};

// Returns the sanitizer that this file is compiled with, as EDGECORE_FEATURE_*; 0 for none.
constexpr uint32_t features() {
#if defined(__SANITIZE_ADDRESS__)
  return EDGECORE_FEATURE_ASAN;
#elif defined(__SANITIZE_THREAD__)
  return EDGECORE_FEATURE_TSAN;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return EDGECORE_FEATURE_ASAN;
#elif __has_feature(thread_sanitizer)
  return EDGECORE_FEATURE_TSAN;
#else
  return 0;
#endif
#else
  return 0;
#endif
}

}  // namespace detail

// Returns the C++ object behind a handle, for functions of the table that are written by hand. The handle must belong
// to a table that make_table returned, and `Object` must be the class for this kind of handle, such as make_table's
// Program.
template <typename Object, typename Opaque>
Object &get(Opaque *handle) {
  return reinterpret_cast<detail::Handle<Object> *>(handle)->object;
}

// Returns the state set of an instance, for its constructor. `StateSet` is make_table's fifth class, such as HostState.
// Throws if the host passed no state set.
template <typename StateSet>
StateSet &state_set(const edgecore_instance_info &info) {
  if (info.state_set == nullptr) {
    fail(EDGECORE_INVALID_STATE,
         "it keeps mutable buffers of the model, and the application has no StateStore (MethodConfig::state)");
  }
  return get<StateSet>(info.state_set);
}

namespace detail {

struct NoState {};

template <typename StateSet>
const edgecore_host *host_of(edgecore_state_set *set) {
  return reinterpret_cast<Handle<StateSet> *>(set)->host.table();
}

// Sets a table's functions for state sets (mutable buffers of a session) to functions that call the members of
// StateSet.
template <typename Program, typename StateSet>
void add_state_set(edgecore_backend &table) {
  using StateHandle = Handle<StateSet>;
  table.state_set_create = [](edgecore_program *program, const edgecore_state_set_info *info, edgecore_state_set **out,
                              edgecore_error *error) -> int32_t {
    const edgecore_host *host = reinterpret_cast<Handle<Program> *>(program)->host.table();
    return guard(host, error, [&] {
      const Host services(host, info->scope);
      *out =
          reinterpret_cast<edgecore_state_set *>(new StateHandle{services, StateSet(get<Program>(program), services)});
      return EDGECORE_OK;
    });
  };
  table.state_set_destroy = [](edgecore_state_set *set) { delete reinterpret_cast<StateHandle *>(set); };
  table.state_count = [](edgecore_state_set *set) -> uint64_t { return get<StateSet>(set).count(); };
  table.state_describe = [](edgecore_state_set *set, uint64_t index, edgecore_state_tensor *out) {
    get<StateSet>(set).describe(index, *out);
  };
  table.reset = [](edgecore_state_set *set, edgecore_error *error) -> int32_t {
    return guard(host_of<StateSet>(set), error, [&] { return get<StateSet>(set).reset(), EDGECORE_OK; });
  };
  table.export_state = [](edgecore_state_set *set, uint64_t index, edgecore_memory_block out,
                          edgecore_error *error) -> int32_t {
    return guard(host_of<StateSet>(set), error,
                 [&] { return get<StateSet>(set).export_state(index, out), EDGECORE_OK; });
  };
  table.import_state = [](edgecore_state_set *set, uint64_t index, edgecore_bytes in,
                          edgecore_error *error) -> int32_t {
    return guard(host_of<StateSet>(set), error,
                 [&] { return get<StateSet>(set).import_state(index, in), EDGECORE_OK; });
  };
}

}  // namespace detail

// Returns a backend's table of functions, made of its four classes, and of StateSet if the backend keeps mutable
// buffers. The members for device buffers are NULL: a backend with device buffers sets them afterwards.
template <typename Driver, typename Program, typename Delegate, typename Instance, typename StateSet = detail::NoState>
edgecore_backend make_table(const Declaration &declaration) {
  using detail::guard;
  using DriverHandle = detail::Handle<Driver>;
  using ProgramHandle = detail::Handle<Program>;
  using DelegateHandle = detail::Handle<Delegate>;
  using InstanceHandle = detail::InstanceHandle<Instance>;

  edgecore_backend table = {};
  table.header = header<edgecore_backend>();
  table.min_host_major = EDGECORE_ABI_MAJOR;
  table.min_host_minor = EDGECORE_ABI_MINOR;
  table.flags = declaration.flags;
  table.features = detail::features();
  table.backend_id = to_str(declaration.backend_id);
  table.distribution = to_str(declaration.distribution);
  table.version = to_str(declaration.version);

  if constexpr (detail::HasProbe<Driver>::value) {
    table.probe = [](const edgecore_host *host, edgecore_scope *scope, edgecore_error *error) -> int32_t {
      return guard(host, error, [&] { return Driver::probe(Host(host, scope)), EDGECORE_OK; });
    };
  }
  table.driver_create = [](const edgecore_host *host, edgecore_scope *scope, edgecore_driver **out,
                           edgecore_error *error) -> int32_t {
    return guard(host, error, [&] {
      const Host services(host, scope);
      *out = reinterpret_cast<edgecore_driver *>(new DriverHandle{services, Driver(services)});
      return EDGECORE_OK;
    });
  };
  table.driver_destroy = [](edgecore_driver *driver) { delete reinterpret_cast<DriverHandle *>(driver); };
  if constexpr (detail::HasCheck<Driver>::value) {
    table.check_compatibility = [](edgecore_driver *driver, edgecore_str compatibility,
                                   edgecore_error *error) -> int32_t {
      const edgecore_host *host = reinterpret_cast<DriverHandle *>(driver)->host.table();
      int32_t answer = EDGECORE_INCOMPATIBLE;
      guard(host, error, [&] {
        answer = get<Driver>(driver).check_compatibility(to_view(compatibility));
        return EDGECORE_OK;
      });
      return answer;
    };
  }
  table.program_open = [](edgecore_driver *driver, const edgecore_program_info *info, edgecore_program **out,
                          edgecore_error *error) -> int32_t {
    const edgecore_host *host = reinterpret_cast<DriverHandle *>(driver)->host.table();
    return guard(host, error, [&] {
      const Host services(host, info->scope);
      *out = reinterpret_cast<edgecore_program *>(
          new ProgramHandle{services, Program(get<Driver>(driver), services, Options(info->options))});
      return EDGECORE_OK;
    });
  };
  table.program_close = [](edgecore_program *program) { delete reinterpret_cast<ProgramHandle *>(program); };

  table.delegate_load = [](edgecore_program *program, const edgecore_delegate_info *info, edgecore_delegate **out,
                           edgecore_error *error) -> int32_t {
    const edgecore_host *host = reinterpret_cast<ProgramHandle *>(program)->host.table();
    return guard(host, error, [&] {
      const Host services(host, info->scope);
      *out = reinterpret_cast<edgecore_delegate *>(
          new DelegateHandle{services, Delegate(get<Program>(program), services, *info)});
      return EDGECORE_OK;
    });
  };
  table.delegate_destroy = [](edgecore_delegate *delegate) { delete reinterpret_cast<DelegateHandle *>(delegate); };
  table.argument_count = [](edgecore_delegate *delegate) -> uint64_t {
    return get<Delegate>(delegate).argument_count();
  };
  if constexpr (detail::HasRequirement<Delegate>::value) {
    table.buffer_requirement = [](edgecore_delegate *delegate, uint64_t index, edgecore_buffer_requirement *out) {
      get<Delegate>(delegate).buffer_requirement(index, *out);
    };
  }

  table.instance_create = [](edgecore_delegate *delegate, const edgecore_instance_info *info, edgecore_instance **out,
                             edgecore_error *error) -> int32_t {
    const edgecore_host *host = reinterpret_cast<DelegateHandle *>(delegate)->host.table();
    return guard(host, error, [&] {
      const Host services(host, info->scope);
      Delegate &owner = get<Delegate>(delegate);
      const uint64_t arguments = owner.argument_count();
      if constexpr (std::is_constructible_v<Instance, Delegate &, const Host &, const edgecore_instance_info &>) {
        *out = reinterpret_cast<edgecore_instance *>(
            new InstanceHandle{{services, Instance(owner, services, *info)}, arguments, {}});
      } else {
        *out = reinterpret_cast<edgecore_instance *>(
            new InstanceHandle{{services, Instance(owner, services)}, arguments, {}});
      }
      return EDGECORE_OK;
    });
  };
  table.instance_destroy = [](edgecore_instance *instance) { delete reinterpret_cast<InstanceHandle *>(instance); };
  table.prepare = [](edgecore_instance *instance, const edgecore_value *args, uint64_t count, uint32_t stride,
                     edgecore_prepared *out, edgecore_error *error) -> int32_t {
    auto *handle = reinterpret_cast<InstanceHandle *>(instance);
    return guard(handle->host.table(), error, [&] {
      handle->needs = handle->object.prepare(handle->arguments(args, count, stride, error));
      out->needs = handle->needs.data();
      out->need_count = handle->needs.size();
      out->need_stride = sizeof(edgecore_memory_need);
      return EDGECORE_OK;
    });
  };
  table.execute = [](edgecore_instance *instance, const edgecore_execute_info *info, const edgecore_value *args,
                     uint64_t count, uint32_t stride, edgecore_error *error) -> int32_t {
    auto *handle = reinterpret_cast<InstanceHandle *>(instance);
    return guard(handle->host.table(), error, [&] {
      const Arguments arguments = handle->arguments(args, count, stride, error);
      if constexpr (detail::HasRun<Instance>::value) {
        return handle->object.run(*info, arguments);
      } else {
        handle->object.execute(arguments, Memory(*info));
        return int32_t{EDGECORE_OK};
      }
    });
  };
  if constexpr (!std::is_same_v<StateSet, detail::NoState>) detail::add_state_set<Program, StateSet>(table);
  return table;
}

// Returns the table of a backend with options for loading or running; `options` must live as long as the library.
template <typename Driver, typename Program, typename Delegate, typename Instance, typename StateSet = detail::NoState,
          size_t count>
edgecore_backend make_table(const Declaration &declaration, const edgecore_option_spec (&options)[count]) {
  edgecore_backend table = make_table<Driver, Program, Delegate, Instance, StateSet>(declaration);
  table.options = options;
  table.option_count = count;
  table.option_stride = sizeof(options[0]);
  return table;
}

}  // namespace edgecore::backend

#endif  // EDGECORE_BACKEND_HPP_
