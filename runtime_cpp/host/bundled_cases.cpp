#include "edgecore/bundled_cases.h"

#include <cstring>
#include <utility>

#include "core/schema.h"  // the first include, because it sets the assertion macro of the generated reader
//
#include "bundled_program_generated.h"
#include "edgecore/make_tensor.h"
#include "host/tensor_copy.h"

namespace edgecore {
namespace {

using Values = flatbuffers::Vector<flatbuffers::Offset<fb::bundled::Value>>;

const fb::bundled::BundledMethodTestSuite *suite_of(Bytes file, StringView method) {
  if (file.empty()) return nullptr;
  const auto *suites = fb::bundled::GetBundledProgram(file.data())->method_test_suites();
  for (uint32_t i = 0; i < size_of(suites); ++i) {
    if (view_of(suites->Get(i)->method_name()) == method) return suites->Get(i);
  }
  return nullptr;
}

// Copies a tensor of a .bpte file, in the tensor's dim order, to memory that `value` owns.
Status copy_tensor(const fb::bundled::Tensor &source, Value &value, Error &error) {
  const Span<const int32_t> sizes = span_of(source.sizes());
  const Span<const uint8_t> order = span_of(source.dim_order());
  const Bytes data = span_of(source.data());
  const auto type = static_cast<int32_t>(source.scalar_type());
  const std::vector<int64_t> shape(sizes.begin(), sizes.end());
  const std::vector<uint8_t> dims(order.begin(), order.end());
  size_t bytes = 0;
  Status status = size_in_bytes(shape, type, bytes, error);
  if (status.ok()) status = check_dims(dims, shape.size(), error);
  if (status.ok() && bytes != data.size()) {
    status = fail(error, EDGECORE_INVALID_PROGRAM, "A tensor of shape ", span_of(shape), " needs ", bytes,
                  " bytes; there are ", data.size(), ".");
  }
  if (!status.ok()) {
    const Error reason = error;
    return fail(error, EDGECORE_INVALID_PROGRAM, "A test case of the .bpte file is damaged: ", reason.sentence());
  }
  const Tensor tensor = Tensor(type, shape).as_strided(shape, strides_in_order(shape, dims));
  EDGECORE_TRY(tensor.check(error));
  if (bytes != 0) std::memcpy(tensor.data(), data.data(), bytes);
  value = tensor;
  return {};
}

Status copy_values(const Values *source, std::vector<Value> &values, Error &error) {
  values.clear();
  for (uint32_t i = 0; i < size_of(source); ++i) {
    const fb::bundled::Value &value = *source->Get(i);
    Value &copy = values.emplace_back();
    // Treat a value with a type but without a table as NONE, because the flatbuffers verifier accepts such values.
    switch (value.val() == nullptr ? fb::bundled::ValueUnion::NONE : value.val_type()) {
      case fb::bundled::ValueUnion::Int:
        copy = value.val_as_Int()->int_val();
        break;
      case fb::bundled::ValueUnion::Bool:
        copy = value.val_as_Bool()->bool_val();
        break;
      case fb::bundled::ValueUnion::Double:
        copy = value.val_as_Double()->double_val();
        break;
      case fb::bundled::ValueUnion::Tensor:
        EDGECORE_TRY(copy_tensor(*value.val_as_Tensor(), copy, error));
        break;
      default:
        return fail(error, EDGECORE_INVALID_PROGRAM, "A test case of the .bpte file is damaged: value ", i,
                    " is missing.");
    }
  }
  return {};
}

}  // namespace

Status BundledCases::open(Bytes file, const Limits &limits, Error &error) {
  EDGECORE_TRY(bundled_program(file, limits, error).status());
  file_ = file;
  return {};
}

std::vector<std::string> BundledCases::methods() const {
  std::vector<std::string> names;
  const auto *suites = file_.empty() ? nullptr : fb::bundled::GetBundledProgram(file_.data())->method_test_suites();
  for (uint32_t i = 0; i < size_of(suites); ++i) {
    const StringView name = view_of(suites->Get(i)->method_name());
    names.emplace_back(name.data(), name.size());
  }
  return names;
}

size_t BundledCases::count(StringView method) const {
  const fb::bundled::BundledMethodTestSuite *suite = suite_of(file_, method);
  return suite == nullptr ? 0 : size_of(suite->test_cases());
}

const void *BundledCases::case_at(StringView method, size_t index, Error &error) const {
  const size_t cases = count(method);
  if (index < cases) return suite_of(file_, method)->test_cases()->Get(static_cast<uint32_t>(index));
  (void)fail(error, EDGECORE_NOT_FOUND, "Method '", method, "' has ", cases, cases == 1 ? " test case" : " test cases",
             "; there is no case ", index, ".");
  return nullptr;
}

Status BundledCases::inputs(StringView method, size_t index, std::vector<Value> &values, Error &error) const {
  const auto *found = static_cast<const fb::bundled::BundledMethodTestCase *>(case_at(method, index, error));
  return found == nullptr ? Status(error.code) : copy_values(found->inputs(), values, error);
}

Status BundledCases::expected_outputs(StringView method, size_t index, std::vector<Value> &values, Error &error) const {
  const auto *found = static_cast<const fb::bundled::BundledMethodTestCase *>(case_at(method, index, error));
  return found == nullptr ? Status(error.code) : copy_values(found->expected_outputs(), values, error);
}

Status load_bundled_input(Module &module, const BundledCases &cases, StringView method, size_t index, Error &error) {
  std::vector<Value> inputs;
  EDGECORE_TRY(cases.inputs(method, index, inputs, error));
  return module.set_inputs(method, std::move(inputs), error);
}

Status verify_method_outputs(const std::vector<Value> &outputs, const BundledCases &cases, StringView method,
                             size_t index, const Tolerance &tolerance, Error &error) {
  std::vector<Value> expected;
  EDGECORE_TRY(cases.expected_outputs(method, index, expected, error));
  if (expected.empty()) {
    return fail(error, EDGECORE_NOT_FOUND, "Case ", index, " of method '", method, "' has no expected outputs.");
  }
  if (expected.size() != outputs.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, expected.size(), " outputs are expected, but method '", method,
                "' returned ", outputs.size(), ".");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Status status = check_close(outputs[i], expected[i], tolerance, error);
    if (status.ok()) continue;
    const Error reason = error;
    return fail(error, status.code(), "Output ", i, " of method '", method, "', case ", index, ": ", reason.sentence());
  }
  return {};
}

Status verify_method_outputs(const Method &method, const BundledCases &cases, size_t index, const Tolerance &tolerance,
                             Error &error) {
  std::vector<Value> outputs;
  for (size_t i = 0; i < method.info().output_count(); ++i) outputs.push_back(Value::copy_of(method.output(i)));
  return verify_method_outputs(outputs, cases, method.info().name(), index, tolerance, error);
}

}  // namespace edgecore
