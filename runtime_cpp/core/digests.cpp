// Program::check_digests: compares weights and blobs with the hashes in the metadata.
#include <string.h>

#include "core/program_tables.h"
#include "core/sha256.h"

namespace edgecore {
namespace {

// Data that several keys refer to is hashed once per key. A damaged file could refer to the same bytes millions of
// times, so hashing stops after kMaxReads times the total size of the program and its .ptd files.
constexpr uint64_t kMaxReads = 64;

// For error messages: the kind and the name of the data whose hash is compared.
struct Subject {
  StringView kind;
  StringView name;
};

class DigestCheck {
 public:
  DigestCheck(const ProgramTables &tables, uint64_t bytes, Error &error)
      : tables_(tables), meta_(*tables.meta), remaining_(bytes * kMaxReads), error_(error) {}

  Status segment(const fb::SubsegmentOffsets *offsets, StringView name, const flatbuffers::Vector<uint8_t> *digest) {
    // Entry 0 of the offsets is reserved. If it is the only entry, the file has no constants (or no initial state), so
    // the segment index must not be used.
    const bool has_data = offsets != nullptr && size_of(offsets->offsets()) > 1;
    if (!has_data || offsets->segment_index() >= tables_.segments.size()) return Status();
    return stored(offsets->segment_index(), LoadUse::kConstants, {"segment", name}, span_of(digest));
  }

  Status named_data(StringView own_key) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < size_of(tables_.root->named_data()); ++i) {
      const fb::NamedData &entry = *tables_.root->named_data()->Get(i);
      const StringView key = view_of(entry.key());
      if (key == own_key) continue;
      EDGECORE_TRY(stored(entry.segment_index(), LoadUse::kNamedData, {"named data", key}, digest_of(key, next)));
    }
    return Status();
  }

  // Compares the hashes of a .ptd file's entries. Skips an entry without a hash in the metadata, because the program
  // does not use that entry.
  Status data_file(const DataFile &file) {
    uint32_t next = 0;
    for (size_t i = 0; i < file.count(); ++i) {
      const StringView key = file.key(i);
      const Bytes digest = digest_of(key, next);
      if (digest.empty()) continue;
      const Result<Bytes> data = file.borrow(i, error_);
      EDGECORE_TRY(data.status());
      const Status status = compare(*data, {"external data", key}, digest, EDGECORE_INVALID_EXTERNAL_DATA);
      file.release(*data);
      EDGECORE_TRY(status);
    }
    return Status();
  }

  Status delegate(const fb::BackendDelegate &delegate, const DelegateInfo &info) {
    const Subject subject = {"delegate", info.backend_id};
    const uint32_t index = delegate.processed()->index();
    if (delegate.processed()->location() == fb::DataLocation::SEGMENT) {
      return stored(index, LoadUse::kDelegate, subject, info.sha256);
    }
    const Bytes blob = span_of(tables_.root->backend_delegate_data()->Get(index)->data());
    return compare(blob, subject, info.sha256, EDGECORE_INVALID_PROGRAM);
  }

 private:
  // Loads a segment, compares its hash with `expected`, and releases the segment.
  Status stored(size_t index, LoadUse use, Subject subject, Bytes expected) {
    const Result<Bytes> data = tables_.segments.borrow(index, use, error_);
    EDGECORE_TRY(data.status());
    const Status status = compare(*data, subject, expected, EDGECORE_INVALID_PROGRAM);
    tables_.segments.release(*data);
    return status;
  }

  Status compare(Bytes data, Subject subject, Bytes expected, int32_t code) {
    if (expected.size() != 32) {
      return fail(error_, EDGECORE_NOT_SUPPORTED, "The file's metadata has no SHA-256 of ", subject.kind, " '",
                  subject.name, "', so it cannot be verified; compile the model again with this edgecore.");
    }
    if (data.size() > remaining_) {
      return fail(error_, EDGECORE_INVALID_PROGRAM, "The file names the same bytes too often to verify them all.");
    }
    remaining_ -= data.size();
    uint8_t digest[32];
    sha256(data, digest);
    if (memcmp(digest, expected.data(), sizeof(digest)) == 0) return Status();
    return fail(error_, code, "The bytes of ", subject.kind, " '", subject.name,
                "' are not those that were compiled: their SHA-256 is not the one in the metadata.");
  }

  // Returns the hash that the metadata has for `key`; empty if the metadata lacks the key. The metadata is sorted by
  // key and the caller asks for keys in ascending order, so each search continues at entry `next`, where the previous
  // one ended.
  Bytes digest_of(StringView key, uint32_t &next) const {
    while (next < size_of(meta_.data()) && less(view_of(meta_.data()->Get(next)->key()), key)) ++next;
    if (next == size_of(meta_.data()) || view_of(meta_.data()->Get(next)->key()) != key) return Bytes();
    return span_of(meta_.data()->Get(next)->sha256());
  }

  const ProgramTables &tables_;
  const fb::meta::Meta &meta_;
  uint64_t remaining_;  // number of bytes that may still be hashed before hashing stops (see kMaxReads)
  Error &error_;
};

}  // namespace

Status Program::check_digests(Error &error) const {
  if (!has_meta()) {
    return fail(error, EDGECORE_NOT_SUPPORTED,
                "The file has no SHA-256 of its weights to verify them by: edgecore did not write it.");
  }
  uint64_t bytes = tables_->file_size;
  for (const DataFile *file : data_) bytes += file->bytes();
  DigestCheck check(*tables_, bytes, error);
  const auto *states = tables_->root->mutable_data_segments();
  EDGECORE_TRY(check.segment(tables_->root->constant_segment(), "constants", tables_->meta->constants_sha256()));
  EDGECORE_TRY(
      check.segment(size_of(states) == 0 ? nullptr : states->Get(0), "initial state", tables_->meta->state_sha256()));
  EDGECORE_TRY(check.named_data(kMetaKey));
  for (size_t i = 0; i < method_count(); ++i) {
    for (size_t j = 0; j < method(i).delegate_count(); ++j) {
      const auto *delegates = tables_->root->execution_plan()->Get(static_cast<uint32_t>(i))->delegates();
      EDGECORE_TRY(check.delegate(*delegates->Get(static_cast<uint32_t>(j)), method(i).delegate(j)));
    }
  }
  for (const DataFile *file : data_) EDGECORE_TRY(check.data_file(*file));
  return Status();
}

}  // namespace edgecore
