// Reads the values of a blob: types, dims, constants and quantization parameters.
#ifndef EDGECORE_XNNPACK_VALUES_H_
#define EDGECORE_XNNPACK_VALUES_H_

#include "blob.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

using ConstantTable = flatbuffers::Vector<flatbuffers::Offset<wire::ConstantDataOffset>>;

void read_value(const wire::Value *table, const ConstantTable *constants, const Sources &sources, Graph *graph,
                Value *value);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_VALUES_H_
