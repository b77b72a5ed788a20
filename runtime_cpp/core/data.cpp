#include "edgecore/data.h"

#include <string.h>

#include <algorithm>
#include <new>

#include "core/checked.h"
#include "core/extended_header.h"
#include "core/load_tables.h"
#include "core/schema.h"
#include "core/segments.h"
#include "edgecore/scalar_type.h"
#include "flat_tensor_generated.h"

namespace edgecore {

struct DataTables {
  const fb::ptd::FlatTensor *root = nullptr;  // root table of the private copy of the .ptd file's flatbuffer
  Segments segments;
  uint64_t bytes = 0;  // total size of all segments, including the gaps between them
};

namespace {

constexpr size_t kHeaderOffset = 8;
constexpr size_t kHeaderLength = 40;

const fb::ptd::NamedData &entry(const DataTables &tables, uint32_t index) {
  return *tables.root->named_data()->Get(index);
}

StringView key_of(const DataTables &tables, uint32_t index) { return view_of(entry(tables, index).key()); }

template <typename... Pieces>
Status invalid(Error &error, StringView name, const Pieces &...pieces) {
  return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "Data file ", name, ": ", pieces...);
}

Status check_layout(const DataTables &tables, const fb::ptd::NamedData &named, StringView name, const Limits &limits,
                    Error &error) {
  const fb::ptd::TensorLayout *layout = named.tensor_layout();
  if (layout == nullptr) return Status();
  const StringView key = view_of(named.key());
  const uint64_t size = scalar_type_info(static_cast<int32_t>(layout->scalar_type())).size;
  const Span<const int32_t> sizes = span_of(layout->sizes());
  const Span<const uint8_t> order = span_of(layout->dim_order());
  if (size == 0 || sizes.size() > limits.rank || order.size() != sizes.size()) {
    return invalid(error, name, "the tensor '", key, "' has an unknown dtype, a rank above the limit ", limits.rank,
                   ", or a dim order of another rank.");
  }
  uint64_t bytes = size;
  for (const int32_t length : sizes) {
    if (length < 0 || multiply_overflows(bytes, static_cast<uint64_t>(length), &bytes)) {
      return invalid(error, name, "the tensor '", key, "' has a size that is negative or too large.");
    }
  }
  const uint64_t stored = tables.segments[named.segment_index()].size;
  if (bytes > limits.tensor_bytes || bytes != stored) {
    return invalid(error, name, "the tensor '", key, "' needs ", bytes, " bytes, its segment has ", stored, ".");
  }
  return Status();
}

// Positions of the two parts of a .ptd file: the flatbuffer, which starts at byte 0, and the data segments.
struct Extent {
  uint64_t flatbuffer_size = 0;
  uint64_t base = 0;  // position of the first data segment in the .ptd file
  uint64_t data_size = 0;
};

Status check_segments(const DataTables &tables, StringView name, const Extent &extent, Error &error) {
  const auto *segments = tables.root->segments();
  for (uint32_t i = 0; i < size_of(segments); ++i) {
    const fb::ptd::DataSegment &segment = *segments->Get(i);
    if (!contains(extent.data_size, segment.offset(), segment.size())) {
      return invalid(error, name, "segment ", i, " (", segment.size(), " bytes at offset ", segment.offset(),
                     ") exceeds the ", extent.data_size, " bytes of data: the file is damaged or truncated.");
    }
    tables.segments[i].offset = extent.base + segment.offset();
    tables.segments[i].size = segment.size();
  }
  return Status();
}

Status check_entries(const DataTables &tables, StringView name, uint64_t flatbuffer_bytes, const Limits &limits,
                     Error &error) {
  // Limit the total length of all keys to the size of the tables: a damaged file may give many entries the same long
  // key, which would make sorting slow, while the keys of a valid file are distinct parts of the tables.
  uint64_t key_bytes = 0;
  for (uint32_t i = 0; i < size_of(tables.root->named_data()); ++i) {
    const fb::ptd::NamedData &named = entry(tables, i);
    if (named.key() == nullptr || named.segment_index() >= tables.segments.size()) {
      return invalid(error, name, "entry ", i, " ('", view_of(named.key()), "') is in segment ", named.segment_index(),
                     " of ", static_cast<uint64_t>(tables.segments.size()), ".");
    }
    key_bytes += named.key()->size();
    if (key_bytes > flatbuffer_bytes) return invalid(error, name, "its names are longer than the file.");
    EDGECORE_TRY(check_layout(tables, named, name, limits, error));
  }
  return Status();
}

Result<Extent> read_header(DataLoader &loader, StringView name, const Limits &limits, Error &error) {
  constexpr size_t kHeaderEnd = kHeaderOffset + kHeaderLength;
  const uint64_t file_size = loader.size();
  uint8_t start[kHeaderEnd] = {};
  if (file_size >= kHeaderEnd) EDGECORE_TRY(copy_start(loader, kHeaderEnd, start, error));
  if (memcmp(start + 4, "FT01", 4) != 0) {
    return invalid(error, name, "this is not a .ptd file: ", file_size,
                   " bytes without the identifier FT01 at byte 4.");
  }
  const uint8_t *header = start + kHeaderOffset;
  if (memcmp(header, "FH01", 4) != 0 || read_u32(header + 4) < kHeaderLength) {
    return invalid(error, name, "it has no extended header FH01 of ", static_cast<uint64_t>(kHeaderLength), " bytes.");
  }
  uint64_t size = 0;
  const uint64_t base = read_u64(header + 24);
  const uint64_t data_size = read_u64(header + 32);
  const bool fits = !add_overflows(read_u64(header + 8), read_u64(header + 16), &size) && size <= file_size;
  if (!fits || size < kHeaderEnd || base < size || !contains(file_size, base, data_size)) {
    return invalid(error, name, "its header announces tables up to byte ", size, " and ", data_size,
                   " bytes of data from byte ", base, "; the file has ", file_size,
                   " bytes: it is damaged or truncated.");
  }
  const uint64_t limit = limits.flatbuffer_bytes < kFlatbufferMax ? limits.flatbuffer_bytes : kFlatbufferMax;
  if (size >= limit) {
    return invalid(error, name, "its tables have ", size, " bytes; the limit flatbuffer_bytes is ", limit, ".");
  }
  return Extent{size, base, data_size};
}

}  // namespace

Result<const DataFile *> DataFile::load(DataLoader &loader, StringView name, Allocator *allocator, const Limits &limits,
                                        Error &error) {
  const Result<Extent> extent = read_header(loader, name, limits, error);
  EDGECORE_TRY(extent.status());
  const Result<Bytes> copy = load_tables(loader, 0, (*extent).flatbuffer_size, false, *allocator, name, error);
  EDGECORE_TRY(copy.status());
  flatbuffers::Verifier verifier((*copy).data(), (*copy).size(), limits.nesting, limits.tables);
  if (!fb::ptd::VerifyFlatTensorBuffer(verifier)) return invalid(error, name, "its tables are damaged.");
  void *tables_memory = allocator->allocate(sizeof(DataTables), alignof(DataTables));
  void *file_memory = allocator->allocate(sizeof(DataFile), alignof(DataFile));
  if (tables_memory == nullptr || file_memory == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for data file ", name, ".");
  }
  DataTables *tables = new (tables_memory) DataTables;
  tables->root = fb::ptd::GetFlatTensor((*copy).data());
  tables->bytes = (*extent).data_size;
  if (tables->root->version() != 0) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "Data file ", name, " has version ", tables->root->version(),
                "; this runtime reads version 0.");
  }
  EDGECORE_TRY(tables->segments.allocate(size_of(tables->root->segments()), *allocator, &loader, error));
  EDGECORE_TRY(check_segments(*tables, name, *extent, error));
  EDGECORE_TRY(check_entries(*tables, name, (*extent).flatbuffer_size, limits, error));

  const size_t count = size_of(tables->root->named_data());
  auto *keys = static_cast<uint32_t *>(allocator->allocate(count * sizeof(uint32_t), alignof(uint32_t)));
  if (keys == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the ", static_cast<uint64_t>(count),
                " names of data file ", name, ".");
  }
  for (size_t i = 0; i < count; ++i) keys[i] = static_cast<uint32_t>(i);
  std::sort(keys, keys + count, [&](uint32_t a, uint32_t b) { return less(key_of(*tables, a), key_of(*tables, b)); });
  for (size_t i = 1; i < count; ++i) {
    if (key_of(*tables, keys[i - 1]) == key_of(*tables, keys[i])) {
      return invalid(error, name, "the name '", key_of(*tables, keys[i]), "' occurs twice.");
    }
  }
  return new (file_memory) DataFile(name, tables, {keys, count});
}

StringView DataFile::key(size_t index) const { return key_of(*tables_, keys_[index]); }

const uint32_t *DataFile::position(StringView key) const {
  const uint32_t *at = std::lower_bound(keys_.begin(), keys_.end(), key,
                                        [&](uint32_t index, StringView k) { return less(key_of(*tables_, index), k); });
  return at == keys_.end() || !(key_of(*tables_, *at) == key) ? nullptr : at;
}

Status DataFile::find(StringView key, NamedBytes &result, Error &error) const {
  const uint32_t *at = position(key);
  if (at == nullptr) return Status(EDGECORE_NOT_FOUND);
  const fb::ptd::NamedData &named = entry(*tables_, *at);
  const Result<Bytes> bytes = tables_->segments.keep(named.segment_index(), LoadUse::kNamedData, error);
  EDGECORE_TRY(bytes.status());
  result.bytes = *bytes;
  result.has_layout = false;
  if (const fb::ptd::TensorLayout *layout = named.tensor_layout()) {
    result.has_layout = true;
    result.scalar_type = static_cast<int32_t>(layout->scalar_type());
    result.sizes = span_of(layout->sizes());
    result.dim_order = span_of(layout->dim_order());
  }
  return Status();
}

Result<Bytes> DataFile::borrow(size_t index, Error &error) const {
  return tables_->segments.borrow(entry(*tables_, keys_[index]).segment_index(), LoadUse::kNamedData, error);
}

void DataFile::release(Bytes bytes) const { tables_->segments.release(bytes); }

uint64_t DataFile::bytes() const { return tables_->bytes; }

bool DataFile::contains(StringView key) const { return position(key) != nullptr; }

Status check_data_files(Span<const DataFile *const> files, Error &error) {
  for (size_t i = 0; i < files.size(); ++i) {
    for (size_t j = i + 1; j < files.size(); ++j) {
      for (size_t k = 0; k < files[j]->count(); ++k) {
        const StringView key = files[j]->key(k);
        if (!files[i]->contains(key)) continue;
        return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "Data files ", files[i]->name(), " and ", files[j]->name(),
                    " both have '", key, "'; pass one of them.");
      }
    }
  }
  return Status();
}

}  // namespace edgecore
