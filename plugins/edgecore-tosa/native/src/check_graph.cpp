#include "check_graph.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "edgecore_tosa/simulator.h"
#include "failures.h"

namespace edgecore::tosa {
namespace {

using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Vector;
using Strings = Vector<Offset<String>>;
using Tensors = std::unordered_map<std::string, const ::tosa::TosaTensor *>;  // tensors by name; null for a TosaShape

constexpr size_t kMaxElements = (size_t{1} << 31) - 1;  // maximum number of elements of a tensor in TOSA's level 8K

[[noreturn]] void invalid(const std::string &text) { throw Failure(EDGECORE_TOSA_INVALID_GRAPH, text); }

[[noreturn]] void not_supported(const std::string &text) { throw Failure(EDGECORE_TOSA_NOT_SUPPORTED, text); }

std::string quoted(const std::string &name) { return "'" + name + "'"; }

// Returns the size in the file, in bytes, of a constant with `count` elements; 0 for an unsupported dtype.
size_t constant_size(::tosa::DType dtype, size_t count) {
  switch (dtype) {
    case ::tosa::DType_INT4:
      return (count + 1) / 2;
    case ::tosa::DType_BOOL:
    case ::tosa::DType_INT8:
    case ::tosa::DType_FP8E4M3:
    case ::tosa::DType_FP8E5M2:
      return count;
    case ::tosa::DType_INT16:
    case ::tosa::DType_FP16:
    case ::tosa::DType_BF16:
      return count * 2;
    case ::tosa::DType_INT32:
    case ::tosa::DType_FP32:
      return count * 4;
    case ::tosa::DType_INT48:
      return count * 6;
    case ::tosa::DType_INT64:
      return count * 8;
    default:
      return 0;
  }
}

void check_version(const ::tosa::Version &version) {
  const bool draft = version._major() == 1 && version._minor() == 1 && version._patch() == 0 && version._draft();
  if (draft || (version._major() == 1 && version._minor() == 0)) return;
  not_supported("The graph is of TOSA " + std::to_string(version._major()) + "." + std::to_string(version._minor()) +
                "." + std::to_string(version._patch()) + (version._draft() ? " (draft)" : "") +
                ", but the simulator runs TOSA 1.0 and the draft of 1.1.0; write the graph for TOSA 1.0.");
}

void check_tensor(const ::tosa::TosaTensor &tensor) {
  const std::string name = tensor.name()->str();
  if (tensor.is_unranked()) not_supported("Tensor " + quoted(name) + " has no rank; give it a static shape.");
  if (tensor.variable()) {
    not_supported("Tensor " + quoted(name) + " is a variable, and the simulator keeps no state between runs.");
  }
  if (tensor.offset() > 1 || tensor.scale_offset() > 1) {
    not_supported("The data of tensor " + quoted(name) + " lies outside of the flatbuffer.");
  }
  if (constant_size(tensor.type(), 1) == 0) {
    not_supported("Tensor " + quoted(name) + " has the dtype " + std::to_string(tensor.type()) +
                  ", which the simulator does not support.");
  }
  std::vector<int32_t> shape;
  if (tensor.shape() != nullptr) shape.assign(tensor.shape()->begin(), tensor.shape()->end());
  const size_t expected = constant_size(tensor.type(), element_count(name, shape));
  if (tensor.data() == nullptr || tensor.data()->size() == 0) return;
  // Allow padding: writers of TOSA files may pad the data of a tensor to a multiple of 8 bytes.
  if (tensor.data()->size() < expected || tensor.data()->size() >= expected + 8) {
    invalid("Tensor " + quoted(name) + " has " + std::to_string(tensor.data()->size()) +
            " bytes of data, but its shape " + "and dtype need " + std::to_string(expected) + ".");
  }
  // Refuse the int4 value -8, because the reference model would read the whole tensor as zeros.
  const auto is_too_low = [](uint8_t byte) { return (byte & 15) == 8 || (byte >> 4) == 8; };
  if (tensor.type() == ::tosa::DType_INT4 && std::any_of(tensor.data()->begin(), tensor.data()->end(), is_too_low)) {
    invalid("Tensor " + quoted(name) + " has the value -8, but int4 values of TOSA go from -7 to 7.");
  }
}

void check_shape(const ::tosa::TosaShape &shape) {
  const size_t size = shape.data() == nullptr ? 0 : shape.data()->size();
  if (size == 0 || size == size_t{8} * shape.rank()) return;
  invalid("Shape " + quoted(shape.name()->str()) + " has " + std::to_string(size) + " bytes of data, but its rank is " +
          std::to_string(shape.rank()) + ".");
}

template <typename T>
bool has_size(const Vector<T> *vector, size_t size) {
  return vector != nullptr && vector->size() == size;
}

// Returns true if each list in an operator's attribute, such as its strides, has the length that the specification
// requires.
bool lists_are_complete(const ::tosa::TosaOperator &op) {
  const auto convolution = [](const auto &attribute, size_t spatial_dims) {
    return has_size(attribute.pad(), 2 * spatial_dims) && has_size(attribute.stride(), spatial_dims) &&
           has_size(attribute.dilation(), spatial_dims);
  };
  const auto pooling = [](const auto &attribute) {
    return has_size(attribute.kernel(), 2) && has_size(attribute.stride(), 2) && has_size(attribute.pad(), 4);
  };
  switch (op.op()) {
    case ::tosa::Op_AVG_POOL2D:
      return pooling(*op.attribute_as_AvgPool2dAttribute());
    case ::tosa::Op_MAX_POOL2D:
      return pooling(*op.attribute_as_MaxPool2dAttribute());
    case ::tosa::Op_CONV2D:
      return convolution(*op.attribute_as_Conv2dAttribute(), 2);
    case ::tosa::Op_CONV3D:
      return convolution(*op.attribute_as_Conv3dAttribute(), 3);
    case ::tosa::Op_DEPTHWISE_CONV2D:
      return convolution(*op.attribute_as_DepthwiseConv2dAttribute(), 2);
    case ::tosa::Op_TRANSPOSE_CONV2D: {
      const auto &attribute = *op.attribute_as_TransposeConv2dAttribute();
      return has_size(attribute.out_pad(), 4) && has_size(attribute.stride(), 2);
    }
    case ::tosa::Op_CLAMP: {
      const auto &attribute = *op.attribute_as_ClampAttribute();
      return attribute.min_val() != nullptr && attribute.max_val() != nullptr;
    }
    case ::tosa::Op_TRANSPOSE:
      return op.attribute_as_TransposeAttribute()->perms() != nullptr;
    default:
      return true;
  }
}

// Returns the kinds of an operator's inputs, separated by commas: "TENSOR, SHAPE".
std::string_view kinds_of_inputs(::tosa::Op op) {
  switch (op) {
#define DEF_OP(NAME, ATTRIBUTE, ...) \
  case ::tosa::Op_##NAME:            \
    return #__VA_ARGS__;
#include "op.def"
#undef DEF_OP
    default:
      return "";
  }
}

size_t size_of(const Strings *names) { return names == nullptr ? 0 : names->size(); }

bool has_all_operands(const ::tosa::TosaOperator &op) {
  const bool transforms_complex_numbers = op.op() == ::tosa::Op_FFT2D || op.op() == ::tosa::Op_RFFT2D;
  if (size_of(op.outputs()) != (transforms_complex_numbers ? 2 : 1)) return false;
  const std::string_view kinds = kinds_of_inputs(op.op());
  if (kinds.find("LIST") != kinds.npos) return size_of(op.inputs()) != 0;
  const auto commas = static_cast<size_t>(std::count(kinds.begin(), kinds.end(), ','));
  return size_of(op.inputs()) == (kinds.empty() ? 0 : commas + 1);
}

const ::tosa::TosaTensor *find(const String &name, const Tensors &tensors, const std::string &user) {
  const auto found = tensors.find(name.str());
  if (found == tensors.end()) invalid(user + " uses " + quoted(name.str()) + ", which is not in its block.");
  return found->second;
}

::tosa::DType dtype_of(const ::tosa::TosaTensor *tensor) {
  return tensor == nullptr ? ::tosa::DType_SHAPE : tensor->type();
}

// Returns true if two tensors have equal sizes in all dims, except in the dim `except` (-1: no exception).
bool same_shapes(const ::tosa::TosaTensor *a, const ::tosa::TosaTensor *b, int32_t except = -1) {
  const auto rank = [](const ::tosa::TosaTensor *tensor) {
    return tensor->shape() == nullptr ? 0 : tensor->shape()->size();
  };
  if (a == nullptr || b == nullptr || rank(a) != rank(b)) return false;
  for (uint32_t dim = 0; dim < rank(a); ++dim) {
    if (a->shape()->Get(dim) != b->shape()->Get(dim) && static_cast<int32_t>(dim) != except) return false;
  }
  return true;
}

// Checks operands that the reference model does not check. Invalid operands would crash it, or give wrong results.
bool operands_fit(const ::tosa::TosaOperator &op, const std::vector<const ::tosa::TosaTensor *> &in,
                  const ::tosa::TosaTensor *out) {
  const auto same_dtypes = [](const auto *a, const auto *b) { return dtype_of(a) == dtype_of(b); };
  switch (op.op()) {
    case ::tosa::Op_IDENTITY:
      return same_dtypes(in[0], out);
    case ::tosa::Op_SELECT:
      return dtype_of(in[0]) == ::tosa::DType_BOOL && same_dtypes(in[1], out) && same_dtypes(in[2], out);
    case ::tosa::Op_CONV2D:
    case ::tosa::Op_CONV3D:
    case ::tosa::Op_DEPTHWISE_CONV2D:
    case ::tosa::Op_TRANSPOSE_CONV2D:
      return same_dtypes(in[3], in[0]) && same_dtypes(in[4], in[1]);  // inputs 3, 4: zero points
    case ::tosa::Op_TABLE:
      return same_shapes(in[0], out);
    case ::tosa::Op_REDUCE_ALL:
      return same_shapes(in[0], out, op.attribute_as_ReduceAllAttribute()->axis());
    case ::tosa::Op_REDUCE_ANY:
      return same_shapes(in[0], out, op.attribute_as_ReduceAnyAttribute()->axis());
    case ::tosa::Op_REDUCE_MAX:
      return same_shapes(in[0], out, op.attribute_as_ReduceMaxAttribute()->axis());
    case ::tosa::Op_REDUCE_MIN:
      return same_shapes(in[0], out, op.attribute_as_ReduceMinAttribute()->axis());
    case ::tosa::Op_REDUCE_PRODUCT:
      return same_shapes(in[0], out, op.attribute_as_ReduceProductAttribute()->axis());
    case ::tosa::Op_REDUCE_SUM:
      return same_shapes(in[0], out, op.attribute_as_ReduceSumAttribute()->axis());
    default:
      return true;
  }
}

void check_operator(const ::tosa::TosaOperator &op, const Tensors &tensors) {
  if (op.op() == ::tosa::Op_UNKNOWN || op.op() > ::tosa::Op_MAX) {
    invalid("An operator has the unknown number " + std::to_string(op.op()) + ".");
  }
  const std::string name = std::string("An operator ") + ::tosa::EnumNameOp(op.op());
  if (op.op() == ::tosa::Op_COND_IF || op.op() == ::tosa::Op_WHILE_LOOP || op.op() == ::tosa::Op_CUSTOM) {
    not_supported(name + " is in the graph, which the simulator does not support.");
  }
  // An operator and its attribute type have the same number, because the schema's two enums list them in the same
  // order.
  if (static_cast<uint32_t>(op.attribute_type()) != op.op() || op.attribute() == nullptr || !lists_are_complete(op)) {
    invalid(name + " has no complete attribute.");
  }
  if (op.location() != nullptr && op.location()->text() == nullptr) invalid(name + " has a location without text.");
  if (!has_all_operands(op)) {
    invalid(name + " has " + std::to_string(size_of(op.inputs())) + " inputs and " +
            std::to_string(size_of(op.outputs())) + " outputs, not the numbers that TOSA says.");
  }
  std::vector<const ::tosa::TosaTensor *> inputs;
  if (op.inputs() != nullptr) {
    for (const String *input : *op.inputs()) inputs.push_back(find(*input, tensors, name));
  }
  const ::tosa::TosaTensor *output = find(*op.outputs()->Get(0), tensors, name);
  if (!operands_fit(op, inputs, output)) invalid(name + " has operands whose dtypes or shapes do not fit together.");
}

void check_block(const ::tosa::TosaBasicBlock &block) {
  if (block.name() == nullptr || block.operators() == nullptr) invalid("A block has no name or no operators.");
  Tensors tensors;
  const auto add = [&tensors](const String *name, const ::tosa::TosaTensor *tensor) {
    if (name == nullptr) invalid("A tensor has no name.");
    if (!tensors.emplace(name->str(), tensor).second) invalid("Two tensors have the name " + quoted(name->str()) + ".");
  };
  if (block.tensors() != nullptr) {
    for (const auto *tensor : *block.tensors()) {
      add(tensor->name(), tensor);
      check_tensor(*tensor);
    }
  }
  if (block.shapes() != nullptr) {
    for (const auto *shape : *block.shapes()) {
      add(shape->name(), nullptr);
      check_shape(*shape);
    }
  }
  for (const auto *op : *block.operators()) check_operator(*op, tensors);
  if (size_of(block.outputs()) == 0) invalid("The graph has no outputs.");
  for (const Strings *list : {block.inputs(), block.outputs()}) {
    if (list == nullptr) continue;
    for (const String *name : *list) {
      if (find(*name, tensors, "The graph") == nullptr) {
        not_supported("Shape " + quoted(name->str()) + " is an input or output of the graph.");
      }
    }
  }
}

}  // namespace

size_t element_count(const std::string &name, const std::vector<int32_t> &shape) {
  size_t count = 1;
  for (const int32_t dim : shape) {
    if (dim <= 0)
      not_supported("Tensor " + quoted(name) + " has a dim of " + std::to_string(dim) + "; give it a static shape.");
    count *= static_cast<size_t>(dim);
    if (count > kMaxElements) not_supported("Tensor " + quoted(name) + " has more than 2^31 - 1 elements.");
  }
  return count;
}

void check_graph(const uint8_t *bytes, size_t size) {
  if (size < 8 || !::tosa::TosaGraphBufferHasIdentifier(bytes)) {
    invalid("These bytes are not a TOSA graph: the file identifier TOSA is missing.");
  }
  flatbuffers::Verifier verifier(bytes, size);
  if (!::tosa::VerifyTosaGraphBuffer(verifier)) invalid("The flatbuffer of the TOSA graph is damaged.");
  const ::tosa::TosaGraph &graph = *::tosa::GetTosaGraph(bytes);
  check_version(*graph.version());
  if (graph.software_version() != nullptr && graph.software_version()->_modifier() == nullptr) {
    invalid("The version of the software that wrote the graph has no modifier.");
  }
  const bool complete = graph.regions() != nullptr && graph.regions()->size() == 1 &&
                        graph.regions()->Get(0)->name() != nullptr && graph.regions()->Get(0)->blocks() != nullptr &&
                        graph.regions()->Get(0)->blocks()->size() == 1;
  if (!complete) not_supported("The simulator runs graphs of one region with one block.");
  check_block(*graph.regions()->Get(0)->blocks()->Get(0));
}

}  // namespace edgecore::tosa
