// kernel.h for C++17: a kernel as a plain function, whose parameters have the types of the operator's schema.
// Header-only; a kernel library includes nothing else of edgecore and links nothing.
//
//   using namespace edgecore::kernel;
//
//   void multiply_add(Context &context, Tensor a, Tensor b, double scale, Tensor out) {
//     if (!a.is<float>() || !b.is<float>() || a.shape() != b.shape()) {
//       return context.fail(EDGECORE_INVALID_ARGUMENT, "a and b must be float32 tensors of one shape");
//     }
//     if (!context.resize(out, a.shape())) return;
//     for (int64_t i = 0; i < a.count(); ++i) out.data<float>()[i] = ...;
//   }
//
//   EDGECORE_LIBRARY(my_ops, "multiply_add.out(Tensor a, Tensor b, float scale, *, Tensor(a!) out) -> Tensor(a!)",
//                    multiply_add);
//   EDGECORE_KERNELS("my-package", "1.0");
//
// The compiler checks the parameters against the schema. If only the operator's name is passed, "multiply_add.out", the
// arguments are checked only at each call. The types of parameters:
//
//   schema                            parameter
//   Tensor, Tensor(a!)                Tensor
//   Tensor[], Tensor?[]               TensorList
//   int, SymInt                       int64_t
//   float                             double
//   bool                              bool
//   str                               StringView
//   Scalar                            Scalar
//   int[], SymInt[], int[2]           Span<const int64_t>
//   float[]                           Span<const double>
//   bool[]                            Span<const uint8_t>
//   ScalarType, Layout, Device,       int64_t
//     MemoryFormat
//   any of these with ?               std::optional of the type
//
// The schema must return nothing, or only tensors that the function writes. The parameter Context may be left out. A
// function that returns an int32_t returns EDGECORE_OK or another code. If the function throws, the call fails with the
// exception's message.
#ifndef EDGECORE_KERNEL_HPP_
#define EDGECORE_KERNEL_HPP_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "edgecore/kernel.h"
#include "edgecore/tensor_types.h"

// The namespace is hidden (visibility), so that two libraries in one process have separate lists of kernels.
namespace edgecore {
namespace kernel __attribute__((visibility("hidden"))) {

  // A tensor argument: a reference to the runtime's tensor, which lives until the kernel returns.
  class Tensor {
   public:
    explicit Tensor(edgecore_tensor *tensor = nullptr) : tensor_(tensor) {}

    edgecore_tensor *c() const { return tensor_; }
    int32_t scalar_type() const { return tensor_->scalar_type; }
    template <typename T>
    bool is() const {
      return scalar_type() == scalar_type_of<T>();
    }
    int32_t dim() const { return tensor_->dl.ndim; }
    int64_t size(int32_t dim) const { return tensor_->dl.shape[dim]; }
    std::vector<int64_t> shape() const { return {tensor_->dl.shape, tensor_->dl.shape + tensor_->dl.ndim}; }
    Span<const int64_t> strides() const { return {tensor_->dl.strides, static_cast<size_t>(tensor_->dl.ndim)}; }
    Span<const uint8_t> dim_order() const { return {tensor_->dim_order, static_cast<size_t>(tensor_->dl.ndim)}; }
    int64_t count() const {
      int64_t count = 1;
      for (int32_t d = 0; d < dim(); ++d) count *= size(d);
      return count;
    }
    // Returns true if the elements are in row-major order without gaps.
    bool is_contiguous() const {
      int64_t stride = 1;
      for (int32_t d = dim(); d-- > 0; stride *= size(d)) {
        if (size(d) == 0) return true;
        if (size(d) != 1 && tensor_->dl.strides[d] != stride) return false;
      }
      return true;
    }
    // Returns the address of the elements, or NULL if the element type is not T.
    template <typename T>
    T *data() const {
      return is<std::remove_const_t<T>>() ? static_cast<T *>(data()) : nullptr;
    }
    void *data() const { return static_cast<char *>(tensor_->dl.data) + tensor_->dl.byte_offset; }

   private:
    edgecore_tensor *tensor_;
  };

  // An argument that is a list of tensors; entries may be missing (None).
  class TensorList {
   public:
    explicit TensorList(const edgecore_list *list = nullptr) : list_(list) {}
    size_t size() const { return static_cast<size_t>(list_->count); }
    bool has(size_t index) const { return list_->items.tensors[index] != nullptr; }
    Tensor operator[](size_t index) const { return Tensor(list_->items.tensors[index]); }

   private:
    const edgecore_list *list_;
  };

  // A numeric argument (Scalar in a schema): an int, a bool or a float.
  class Scalar {
   public:
    explicit Scalar(edgecore_value value = {}) : value_(value) {}
    bool is_double() const { return value_.tag == EDGECORE_TAG_DOUBLE; }
    double to_double() const { return is_double() ? value_.as.d : static_cast<double>(value_.as.i); }
    int64_t to_int() const { return is_double() ? static_cast<int64_t>(value_.as.d) : value_.as.i; }

   private:
    edgecore_value value_;
  };

  // The context of one kernel call: services of the runtime, and the call's error.
  class Context {
   public:
    explicit Context(const edgecore_call *call) : call_(call) {}

    // Makes the call fail with a message, formatted like std::printf. The runtime adds the names of method and
    // operator.
    [[gnu::format(printf, 3, 4)]] void fail(int32_t code, const char *format, ...) {
      char text[512];
      va_list arguments;
      va_start(arguments, format);
      const int size = std::vsnprintf(text, sizeof text, format, arguments);
      va_end(arguments);
      const size_t length = size < 0 ? 0 : size < 511 ? static_cast<size_t>(size) : 511;
      code_ = call_->host->fail(call_->error, code, {text, length});
    }
    int32_t code() const { return code_; }

    // Sets the shape of an output. Must be called for each output before writing, even if the shape is right already.
    // If resize returns false, the call has failed.
    bool resize(Tensor out, const std::vector<int64_t> &shape) {
      const auto rank = static_cast<int32_t>(shape.size());
      const int32_t code = call_->host->resize(call_->scope, out.c(), shape.data(), rank, call_->error);
      if (code != EDGECORE_OK) code_ = code;
      return code == EDGECORE_OK;
    }

    // Returns memory that lives until the kernel returns. If no memory is left, returns NULL and makes the call fail.
    void *scratch(uint64_t size, uint64_t alignment = 64) {
      void *memory = call_->host->scratch(call_->scope, size, alignment);
      if (memory == nullptr) {
        fail(EDGECORE_MEMORY_ALLOCATION_FAILED, "no scratch memory of %llu bytes",
             static_cast<unsigned long long>(size));
      }
      return memory;
    }

    // Splits the items [0, n) into ranges of at least `grain` items, and calls body(begin, end) for each range on the
    // threads of the method. The body must not throw.
    template <typename Body>
    void parallel_for(int64_t n, int64_t grain, const Body &body) {
      const auto run = [](void *arg, uint64_t begin, uint64_t end, uint32_t) {
        (*static_cast<const Body *>(arg))(static_cast<int64_t>(begin), static_cast<int64_t>(end));
      };
      if (n <= 0) return;
      call_->host->parallel_for(call_->scope, static_cast<uint64_t>(n), static_cast<uint64_t>(grain), run,
                                const_cast<Body *>(&body), 0);
    }

   private:
    const edgecore_call *call_;
    int32_t code_ = EDGECORE_OK;
  };

  // The kinds of a kernel's parameters. kUnknown stands for a schema type that no C++ type matches.
  enum class Kind : uint8_t {
    kUnknown,
    kTensor,
    kTensorList,
    kInt,
    kDouble,
    kBool,
    kString,
    kScalar,
    kIntList,
    kDoubleList,
    kBoolList,
  };

  // Describes the parameter type T: `kKind`, `kName` for messages, `is(value)`, true if a kernel can take the value as
  // a T, and `read(value)`, which returns the value as a T.
  template <typename T>
  struct Parameter;

  template <Kind the_kind, uint32_t the_tag>
  struct Tagged {
    static constexpr Kind kKind = the_kind;
    static constexpr bool kOptional = false;
    static bool is(const edgecore_value &value) { return value.tag == the_tag; }
  };
  template <>
  struct Parameter<Tensor> : Tagged<Kind::kTensor, EDGECORE_TAG_TENSOR> {
    static constexpr char kName[] = "a tensor";
    static Tensor read(const edgecore_value &value) { return Tensor(value.as.tensor); }
  };
  template <>
  struct Parameter<TensorList> : Tagged<Kind::kTensorList, EDGECORE_TAG_TENSOR_LIST> {
    static constexpr char kName[] = "a list of tensors";
    static TensorList read(const edgecore_value &value) { return TensorList(value.as.list); }
  };
  template <>
  struct Parameter<int64_t> : Tagged<Kind::kInt, EDGECORE_TAG_INT> {
    static constexpr char kName[] = "an int";
    static int64_t read(const edgecore_value &value) { return value.as.i; }
  };
  template <>
  struct Parameter<double> : Tagged<Kind::kDouble, EDGECORE_TAG_DOUBLE> {
    static constexpr char kName[] = "a float";
    static bool is(const edgecore_value &value) {
      return value.tag == EDGECORE_TAG_DOUBLE || value.tag == EDGECORE_TAG_INT;
    }
    static double read(const edgecore_value &value) { return Scalar(value).to_double(); }
  };
  template <>
  struct Parameter<bool> : Tagged<Kind::kBool, EDGECORE_TAG_BOOL> {
    static constexpr char kName[] = "a bool";
    static bool read(const edgecore_value &value) { return value.as.b != 0; }
  };
  template <>
  struct Parameter<Scalar> : Tagged<Kind::kScalar, EDGECORE_TAG_INT> {
    static constexpr char kName[] = "a number";
    static bool is(const edgecore_value &value) {
      return value.tag >= EDGECORE_TAG_INT && value.tag <= EDGECORE_TAG_BOOL;
    }
    static Scalar read(const edgecore_value &value) { return Scalar(value); }
  };
  template <>
  struct Parameter<StringView> : Tagged<Kind::kString, EDGECORE_TAG_STRING> {
    static constexpr char kName[] = "a string";
    static StringView read(const edgecore_value &value) {
      return {value.as.list->items.chars, static_cast<size_t>(value.as.list->count)};
    }
  };
  template <>
  struct Parameter<Span<const int64_t>> : Tagged<Kind::kIntList, EDGECORE_TAG_INT_LIST> {
    static constexpr char kName[] = "a list of ints";
    static Span<const int64_t> read(const edgecore_value &value) {
      return {value.as.list->items.ints, static_cast<size_t>(value.as.list->count)};
    }
  };
  template <>
  struct Parameter<Span<const double>> : Tagged<Kind::kDoubleList, EDGECORE_TAG_DOUBLE_LIST> {
    static constexpr char kName[] = "a list of floats";
    static Span<const double> read(const edgecore_value &value) {
      return {value.as.list->items.doubles, static_cast<size_t>(value.as.list->count)};
    }
  };
  template <>
  struct Parameter<Span<const uint8_t>> : Tagged<Kind::kBoolList, EDGECORE_TAG_BOOL_LIST> {
    static constexpr char kName[] = "a list of bools";
    static Span<const uint8_t> read(const edgecore_value &value) {
      return {value.as.list->items.bools, static_cast<size_t>(value.as.list->count)};
    }
  };
  template <typename T>
  struct Parameter<std::optional<T>> {
    static constexpr Kind kKind = Parameter<T>::kKind;
    static constexpr bool kOptional = true;
    static constexpr auto &kName = Parameter<T>::kName;
    static bool is(const edgecore_value &value) { return value.tag == EDGECORE_TAG_NONE || Parameter<T>::is(value); }
    static std::optional<T> read(const edgecore_value &value) {
      return value.tag == EDGECORE_TAG_NONE ? std::nullopt : std::optional<T>(Parameter<T>::read(value));
    }
  };

  struct ParameterKind {
    Kind kind = Kind::kUnknown;
    bool optional = false;
  };
  struct Signature {
    static constexpr size_t kMax = 64;
    size_t count = 0;
    ParameterKind kinds[kMax] = {};
  };

  constexpr bool equals(const char *text, size_t size, const char *word) {
    size_t i = 0;
    for (; i < size && word[i] != '\0'; ++i) {
      if (text[i] != word[i]) return false;
    }
    return i == size && word[i] == '\0';
  }

  // Returns the kind of a type in a schema: {kTensor, not optional} for "Tensor(a!)", {kIntList, optional} for
  // "int[2]?".
  constexpr ParameterKind kind_of_type(const char *type, size_t size) {
    char plain[32] = {};
    size_t length = 0;
    ParameterKind result;
    bool hidden = false;  // true inside "(a!)" or "[2]": these characters do not count
    for (size_t i = 0; i < size; ++i) {
      if (type[i] == ')' || type[i] == ']') hidden = false;
      const bool skip = hidden || type[i] == '(' || type[i] == ')';
      if (!skip && length < sizeof plain) plain[length++] = type[i];
      if (type[i] == '(' || type[i] == '[') hidden = true;
    }
    if (length > 0 && plain[length - 1] == '?') {
      result.optional = true;
      --length;
    }
    struct Entry {
      const char *name;
      Kind kind;
    };
    constexpr Entry kTypes[] = {
        {"Tensor", Kind::kTensor},
        {"Tensor[]", Kind::kTensorList},
        {"Tensor?[]", Kind::kTensorList},
        {"int", Kind::kInt},
        {"SymInt", Kind::kInt},
        {"ScalarType", Kind::kInt},
        {"Layout", Kind::kInt},
        {"Device", Kind::kInt},
        {"MemoryFormat", Kind::kInt},
        {"float", Kind::kDouble},
        {"bool", Kind::kBool},
        {"str", Kind::kString},
        {"Scalar", Kind::kScalar},
        {"int[]", Kind::kIntList},
        {"SymInt[]", Kind::kIntList},
        {"float[]", Kind::kDoubleList},
        {"bool[]", Kind::kBoolList},
    };
    for (const Entry &entry : kTypes) {
      if (equals(plain, length, entry.name)) result.kind = entry.kind;
    }
    return result;
  }

  // Returns a pointer to the first "(" of a schema, or to the final NUL if the text is only an operator's name.
  constexpr const char *parameters_of(const char *schema) {
    while (*schema != '\0' && *schema != '(') ++schema;
    return schema;
  }

  // Returns the kinds of the parameters of a schema, without the separator "*".
  constexpr Signature signature_of(const char *schema) {
    Signature result;
    const char *at = parameters_of(schema) + 1;
    while (*at != '\0' && *at != ')' && result.count < Signature::kMax) {
      while (*at == ' ') ++at;
      const char *begin = at;
      int depth = 0;
      size_t type = 0;  // number of characters of the parameter's type
      bool in_type = true;
      char quote = '\0';
      for (; *at != '\0'; ++at) {
        if (quote != '\0') {
          if (*at == quote) quote = '\0';
          continue;
        }
        if (*at == '"' || *at == '\'') quote = *at;
        if (depth == 0 && (*at == ',' || *at == ')')) break;
        if (*at == '(' || *at == '[') ++depth;
        if (*at == ')' || *at == ']') --depth;
        if (depth == 0 && *at == ' ') in_type = false;
        if (in_type) ++type;
      }
      if (!equals(begin, type, "*")) result.kinds[result.count++] = kind_of_type(begin, type);
      if (*at == ',') ++at;
    }
    return result;
  }

  // Checks the arguments of a call, converts them to the parameters of a C++ kernel, and calls the kernel.
  template <typename Function>
  struct Caller;

  template <typename Result, typename... Args>
  struct Caller<Result (*)(Context &, Args...)> {
    static_assert(std::is_void_v<Result> || std::is_same_v<Result, int32_t>,
                  "a kernel returns nothing, or an EDGECORE_* code as int32_t");

    static constexpr bool matches(const char *schema) {
      if (*parameters_of(schema) == '\0') return true;  // only a name
      const Signature signature = signature_of(schema);
      constexpr ParameterKind kKinds[] = {
          {Parameter<std::decay_t<Args>>::kKind, Parameter<std::decay_t<Args>>::kOptional}...};
      if (signature.count != sizeof...(Args)) return false;
      for (size_t i = 0; i < signature.count; ++i) {
        if (signature.kinds[i].kind != kKinds[i].kind || signature.kinds[i].optional != kKinds[i].optional)
          return false;
      }
      return true;
    }

    template <typename Call, size_t... indices>
    static int32_t run(const edgecore_call *call, const Call &function, std::index_sequence<indices...>) {
      Context context(call);
      if (call->arg_count != sizeof...(Args)) {
        context.fail(EDGECORE_INVALID_ARGUMENT, "the kernel has %d parameters, but %d arguments were passed",
                     static_cast<int>(sizeof...(Args)), static_cast<int>(call->arg_count));
        return context.code();
      }
      const auto value = [&](size_t index) -> const edgecore_value & {
        const auto *bytes = reinterpret_cast<const char *>(call->args) + index * call->arg_stride;
        return *reinterpret_cast<const edgecore_value *>(bytes);
      };
      const auto check = [&](size_t index, bool is, const char *name) {
        if (is) return true;
        context.fail(EDGECORE_INVALID_TYPE, "argument %d must be %s", static_cast<int>(index), name);
        return false;
      };
      if (!(check(indices, Parameter<std::decay_t<Args>>::is(value(indices)), Parameter<std::decay_t<Args>>::kName) &&
            ...)) {
        return context.code();
      }
      if constexpr (std::is_void_v<Result>) {
        function(context, Parameter<std::decay_t<Args>>::read(value(indices))...);
        return context.code();
      } else {
        const int32_t code = function(context, Parameter<std::decay_t<Args>>::read(value(indices))...);
        return code == EDGECORE_OK ? context.code() : code;
      }
    }

    template <typename Call>
    static int32_t run(const edgecore_call *call, const Call &function) {
#if defined(__cpp_exceptions)
      try {
        return run(call, function, std::index_sequence_for<Args...>());
      } catch (const std::exception &exception) {
        Context context(call);
        context.fail(EDGECORE_INTERNAL, "%s", exception.what());
        return context.code();
      } catch (...) {
        Context context(call);
        context.fail(EDGECORE_INTERNAL, "the kernel threw an exception");
        return context.code();
      }
#else
      return run(call, function, std::index_sequence_for<Args...>());
#endif
    }
  };

  // Calls a C++ kernel that has no parameter Context.
  template <typename Result, typename... Args>
  struct Caller<Result (*)(Args...)> {
    static constexpr bool matches(const char *schema) {
      return Caller<Result (*)(Context &, Args...)>::matches(schema);
    }
    template <typename Call>
    static int32_t run(const edgecore_call *call, const Call &function) {
      const auto with_context = [&](Context &, Args... args) { return function(args...); };
      return Caller<Result (*)(Context &, Args...)>::run(call, with_context);
    }
  };

  template <typename Result, typename... Args>
  struct Caller<Result (*)(Args...) noexcept> : Caller<Result (*)(Args...)> {};

  template <auto function>
  int32_t EDGECORE_CALL run(const edgecore_call *call) {
    return Caller<decltype(function)>::run(call, function);
  }

  template <auto function>
  constexpr bool matches(const char *schema) {
    return Caller<decltype(function)>::matches(schema);
  }

  constexpr uint64_t kAnyType = ~uint64_t{0};

  // Returns the element types as the bits of edgecore_kernel.dtypes: for_types<float, int64_t>().
  template <typename... Types>
  constexpr uint64_t for_types() {
    return ((uint64_t{1} << scalar_type_of<Types>()) | ...);
  }

  // The kernels that EDGECORE_LIBRARY has registered in this library, and the strings to which they point.
  struct Registered {
    std::deque<std::string> names;
    std::vector<edgecore_kernel> kernels;
  };
  inline Registered &registered() {
    static Registered list;
    return list;
  }

  inline bool add_kernel(const char *ns, const char *schema, edgecore_kernel_fn run, uint64_t dtypes) {
    Registered &list = registered();
    const std::string name(schema, static_cast<size_t>(parameters_of(schema) - schema));
    const size_t dot = name.find('.');
    const std::string &op = list.names.emplace_back(std::string(ns) + "::" + name.substr(0, dot));
    const std::string &overload = list.names.emplace_back(dot == std::string::npos ? "" : name.substr(dot + 1));
    list.kernels.push_back({{sizeof(edgecore_kernel), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
                            {op.data(), op.size()},
                            {overload.data(), overload.size()},
                            dtypes,
                            run});
    return true;
  }

  inline const edgecore_kernel_library *library(const char *package, const char *version) {
    static const edgecore_kernel_library table = {
        {sizeof(edgecore_kernel_library), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
        {package, std::strlen(package)},
        {version, std::strlen(version)},
        registered().kernels.data(),
        registered().kernels.size(),
        sizeof(edgecore_kernel),
        0};
    return &table;
  }

}  // namespace kernel
}  // namespace edgecore

#define EDGECORE_KERNEL_JOIN_(a, b) a##b
#define EDGECORE_KERNEL_JOIN(a, b) EDGECORE_KERNEL_JOIN_(a, b)

// Registers `function` as the kernel of an operator: EDGECORE_LIBRARY(namespace, "schema or name", function).
// EDGECORE_LIBRARY_FOR has one more argument, the tensor types that the kernel supports:
// edgecore::kernel::for_types<float, int64_t>().
#define EDGECORE_LIBRARY(ns, schema, function) EDGECORE_LIBRARY_FOR(ns, schema, function, ::edgecore::kernel::kAnyType)
#define EDGECORE_LIBRARY_FOR(ns, schema, function, ...)                                          \
  static_assert(::edgecore::kernel::matches<&function>(schema),                                  \
                "the parameters of " #function " do not fit the schema " schema);                \
  [[maybe_unused]] static const bool EDGECORE_KERNEL_JOIN(edgecore_kernel_added_, __COUNTER__) = \
      ::edgecore::kernel::add_kernel(#ns, schema, ::edgecore::kernel::run<&function>, __VA_ARGS__)

// Define the function that returns the table of all registered kernels. Use EDGECORE_KERNELS in exactly one source of a
// shared library. A program that links its kernels statically uses EDGECORE_KERNEL_TABLE(name, ...) and passes name()
// to Module::add_kernels. Put EDGECORE_KERNEL_TABLE into the source file of the kernels, so that the call of name()
// makes the linker keep their object file.
#define EDGECORE_KERNEL_TABLE(name, package, version) \
  extern "C" const edgecore_kernel_library *name(void) { return ::edgecore::kernel::library(package, version); }
#define EDGECORE_KERNELS(package, version)                                             \
  extern "C" EDGECORE_EXPORT const edgecore_kernel_library *edgecore_kernels_v0(void); \
  EDGECORE_KERNEL_TABLE(edgecore_kernels_v0, package, version)                         \
  static_assert(true, "so that a semicolon may follow")

#endif  // EDGECORE_KERNEL_HPP_
