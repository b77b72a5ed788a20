// A loaded .pte file: immutable, shared between threads and methods.
#ifndef EDGECORE_PROGRAM_H_
#define EDGECORE_PROGRAM_H_

#include "edgecore/allocator.h"
#include "edgecore/data.h"
#include "edgecore/data_loader.h"
#include "edgecore/limits.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

class Program;
struct ProgramTables;  // flatbuffer roots and resolved segments of a file; see core/program_tables.h

struct ProgramConfig {
  Allocator *allocator = nullptr;  // provides the memory of the Program and of the copy of its tables
  Limits limits;
  Span<const DataFile *const> data;  // .ptd files of the program; the files and this array must outlive the Program

  // If tables_in_place is true, the caller promises that the bytes of the loader never change, for example because they
  // are in flash. The tables of the file are then used in place if their addresses are multiples of 16. Otherwise the
  // program makes a private copy.
  bool tables_in_place = false;
};

#define EDGECORE_SHAPE_STATIC 0u   // the shape of the tensor is always `sizes`
#define EDGECORE_SHAPE_BOUNDED 1u  // the rank is fixed, and each size is between 0 and its entry in `sizes`

// The type and shape of a tensor as the file declares them.
struct TensorInfo {
  int32_t scalar_type = 0;  // element type: a number of the .pte's ScalarType
  uint32_t shape_kind = EDGECORE_SHAPE_STATIC;
  Span<const int32_t> sizes;      // maximum shape
  Span<const uint8_t> dim_order;  // outermost first
  uint64_t bytes = 0;             // at the maximum shape
  bool planned = false;           // true: the tensor's memory is in an arena or the file; false: the caller provides it
};

// The type of an input or output of a method.
struct ValueInfo {
  StringView name;  // name of the value, such as "x" or "past[0].key"; empty if the file has none
  uint32_t tag = EDGECORE_TAG_NONE;
  TensorInfo tensor;  // set if `tag` is EDGECORE_TAG_TENSOR
};

// One dim of an input or output tensor. The size is symbolic if `symbol` is not negative. A symbolic size is multiple *
// n + offset, where n is the same integer for all dims of the method with this `symbol`.
struct DimInfo {
  StringView name;  // name of the size, such as "batch" or "8*s"; empty if it is fixed, or the file has none
  int64_t min = 0;
  int64_t max = 0;
  int32_t symbol = -1;
  int64_t multiple = 1;
  int64_t offset = 0;
};

struct OperatorName {
  StringView name;      // "aten::add"
  StringView overload;  // "out"; may be empty
};

// Memory that a delegate will ask for at run time, as the compiler declared it in the file's metadata
// (edgecore.meta.v1).
struct DeclaredNeed {
  uint32_t kind = 0;   // EDGECORE_MEMORY_*
  uint32_t space = 0;  // 0: host memory
  uint64_t bytes = 0;
  uint64_t alignment = 0;
  StringView shared_group;
};

// A delegate of a method. The members after has_meta come from the metadata that edgecore's compiler adds to a file
// (edgecore.meta.v1); they are empty if another toolchain wrote the file.
struct DelegateInfo {
  StringView backend_id;
  uint64_t blob_bytes = 0;
  bool has_meta = false;
  StringView compatibility;
  Bytes sha256;  // 32 bytes, or empty
  StringView distribution;
  StringView version;
  uint64_t need_count = 0;  // see MethodInfo::declared_need
};

// The declaration of one method in the file. It refers to the Program, which must outlive the MethodInfo. Indices must
// be below the corresponding counts.
class MethodInfo {
 public:
  StringView name() const;
  size_t input_count() const;
  ValueInfo input(size_t index) const;
  StringView input_name(size_t index) const;
  size_t output_count() const;
  ValueInfo output(size_t index) const;
  // Return how inputs and outputs are nested in tuples, lists and dicts, as JSON from
  // torch.utils._pytree.treespec_dumps; empty if the file does not say. The inputs are a pair: a tuple of the
  // positional arguments, and a dict of the named arguments.
  StringView input_containers() const;
  StringView output_containers() const;
  // Describe a dim of input or output tensor `index`. If another toolchain wrote the file, a dim of a dynamic shape has
  // no symbol, and its min is 0.
  DimInfo input_dim(size_t index, size_t dim) const;
  DimInfo output_dim(size_t index, size_t dim) const;
  // Returns the index of the input called `name`. If there is no such input, fails with NOT_FOUND and lists the names
  // of all inputs.
  Result<size_t> find_input(StringView name, Error &error) const;
  size_t arena_count() const;  // the file numbers arenas from 1; here the indices begin at 0
  uint64_t arena_bytes(size_t index) const;
  size_t delegate_count() const;
  DelegateInfo delegate(size_t index) const;
  DeclaredNeed declared_need(size_t delegate, size_t index) const;
  size_t operator_count() const;
  OperatorName operator_name(size_t index) const;
  size_t instruction_count() const;

 private:
  friend class Program;
  MethodInfo(const Program *program, size_t index) : program_(program), index_(index) {}
  const Program *program_;
  size_t index_;
};

class Program {
 public:
  // Loads and verifies the tables of a .pte file; copies them first unless `tables_in_place` is set. Segments are
  // loaded when they are needed: a delegate's blob stays loaded until the backend releases it, and constants, initial
  // state and named data stay as long as the loader. `loader` must outlive the Program and its methods. The Program
  // lives in config.allocator and needs no destruction. Errors: INVALID_PROGRAM (not a .pte, truncated, or
  // inconsistent: the error says what and where), MEMORY_ALLOCATION_FAILED, NOT_SUPPORTED (a newer schema version), and
  // the errors of the loader.
  static Result<const Program *> load(DataLoader &loader, const ProgramConfig &config, Error &error);

  size_t method_count() const;
  MethodInfo method(size_t index) const { return MethodInfo(this, index); }
  // Returns the index of the method called `name`. If there is no such method, fails with NOT_FOUND and lists the names
  // of all methods.
  Result<size_t> find_method(StringView name, Error &error) const;

  // Returns the bytes stored under `key` in the file, or else in one of the .ptd files. The first call loads the bytes,
  // which stay valid as long as the loader of that file. Thread-safe. Errors: NOT_FOUND with the key, and the errors of
  // the loader.
  Result<Bytes> named_data(StringView key, Error &error) const;
  // Sets `data` to the tensor that a .ptd file stores under `key`; `data` stays valid as long as the loader of that
  // file. Errors: NOT_FOUND with the key and the files, and the errors of the loader.
  Status external_data(StringView key, NamedBytes &data, Error &error) const;
  size_t named_data_count() const;
  StringView named_data_key(size_t index) const;

  bool has_meta() const;  // true if edgecore wrote the file

  // Return true if the file's metadata says that the file's methods share the mutable buffer of this name, or any
  // buffer.
  bool shares_state(StringView qualified_name) const;
  bool shares_state() const;
  // Returns the runtime that the file was compiled for: "executorch-1.5" or "edgecore"; empty without metadata.
  StringView target_runtime() const;

  // Compares the SHA-256 hashes of weights, initial state, blobs and named data, and of the .ptd entries that the
  // program uses, with the hashes in the metadata. Loads all these bytes, one segment at a time. Errors:
  // INVALID_PROGRAM or INVALID_EXTERNAL_DATA with the name of the data that have changed, NOT_SUPPORTED (a hash is
  // missing, or the file has no metadata), and the errors of the loader.
  Status check_digests(Error &error) const;

  // Checks that every tensor that the method's instructions use has memory: planned memory, data in the file, the
  // caller's memory (inputs and outputs), or the memory of another tensor, which it shares because of an instruction
  // (et_view or a move). Without this check, a run would fail only when it reaches such an instruction. Allocates one
  // byte of `scratch` per value. Errors: NOT_SUPPORTED with the instruction and the value; MEMORY_ALLOCATION_FAILED.
  Status check_allocated(size_t method, Allocator &scratch, Error &error) const;

  const Limits &limits() const { return limits_; }
  const ProgramTables &tables() const { return *tables_; }  // internal: for the sources of the core

  Program(const ProgramTables *tables, const ProgramConfig &config)
      : tables_(tables), limits_(config.limits), data_(config.data) {}

 private:
  const ProgramTables *tables_;
  Limits limits_;
  Span<const DataFile *const> data_;
};

// Starts an error message about an input: sets the code INVALID_ARGUMENT and the text "Input 'x' (0) of method
// 'forward'". The caller appends the reason.
void name_input(const MethodInfo &method, size_t index, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_PROGRAM_H_
