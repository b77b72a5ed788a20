#include "host/trace_records.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/program_tables.h"
#include "edgecore/trace_buffer.h"
#include "host/etdump.h"

namespace edgecore {
namespace {

constexpr uint64_t kNanoseconds = 1000000000;

// The trace of one method, rebuilt from records of a device, and the names of its events.
class Rebuilt {
 public:
  Rebuilt(const Program &program, size_t method, uint64_t limit) : trace_(limit) {
    const MethodInfo info = program.method(method);
    traced_.name.assign(info.name().data(), info.name().size());
    traced_.operators = operators_of(program, method);
    traced_.trace = &trace_;
    const fb::ExecutionPlan &plan = *program.tables().root->execution_plan()->Get(static_cast<uint32_t>(method));
    for (uint32_t chain = 0; chain < plan.chains()->size(); ++chain) {
      const auto *instructions = plan.chains()->Get(chain)->instructions();
      for (uint32_t i = 0; i < size_of(instructions); ++i) {
        const fb::DelegateCall *call = instructions->Get(i)->instr_args_as_DelegateCall();
        const StringView id =
            call == nullptr ? StringView() : info.delegate(static_cast<size_t>(call->delegate_index())).backend_id;
        backends_.emplace_back(id.data(), id.size());
      }
    }
    const fb::meta::Method *meta = method_meta(program.tables(), method);
    for (uint32_t i = 0; meta != nullptr && i < size_of(meta->delegates()); ++i) {
      const auto *operations = meta->delegates()->Get(i)->operations();
      for (uint32_t j = 0; j < size_of(operations); ++j) {
        const StringView name = view_of(operations->Get(j)->name());
        if (!name.empty()) operations_.emplace(trace_hash(name), std::string(name.data(), name.size()));
      }
    }
  }

  uint32_t hash() const { return trace_hash({traced_.name.data(), traced_.name.size()}); }
  void add(const TraceKey &key, uint64_t begin, uint64_t end, std::string metadata = {}) {
    const uint32_t kind = key.kind & 0xffu;
    const bool is_run = kind == static_cast<uint32_t>(TraceKind::kExecute);
    TraceEvent event = {begin, end, -1, is_run ? 0u : key.instruction, kind & 0xf, 0};
    std::string name;
    if (kind == static_cast<uint32_t>(TraceKind::kPrepare) || kind == static_cast<uint32_t>(TraceKind::kCopy)) {
      if (key.instruction < backends_.size()) name = backends_[key.instruction];
    } else if (kind == static_cast<uint32_t>(TraceKind::kBackend)) {
      if ((key.kind & kTraceNamed) == 0) {
        event.debug_id = key.id;
      } else {
        const auto found = operations_.find(key.id);
        name = found != operations_.end() ? found->second : "operation " + std::to_string(key.id);
      }
    }
    trace_.restore(event, {name.data(), name.size()});
    if (!metadata.empty()) traced_.metadata.push_back(std::move(metadata));
  }
  void drop(uint64_t events) { trace_.count_dropped(events); }

  const TracedMethod &traced() const { return traced_; }

 private:
  Trace trace_;
  TracedMethod traced_;
  std::vector<std::string> backends_;                     // for each instruction: id of the backend that it calls
  std::unordered_map<uint32_t, std::string> operations_;  // name of each backend operation, by the name's hash
};

class Reader {
 public:
  Reader(const Program &program, Bytes records, Error &error) : program_(program), records_(records), error_(error) {}

  Status read(std::vector<uint8_t> &etdump) {
    if (records_.size() < sizeof(header_)) return refuse("have no header");
    std::memcpy(&header_, records_.data(), sizeof(header_));
    const bool totals = header_.record_bytes == sizeof(TraceTotal);
    if (std::memcmp(header_.magic, "ECTR", 4) != 0) return refuse("do not begin with ECTR");
    if (header_.version != kTraceVersion || (!totals && header_.record_bytes != sizeof(TraceRecord))) {
      return refuse("have a version that is not known");
    }
    if (header_.ticks_per_second == 0) return refuse("have no time unit");
    const size_t capacity = (records_.size() - sizeof(header_)) / header_.record_bytes;
    if (totals && header_.recorded > capacity) return refuse("are cut off");
    for (size_t i = 0; i < program_.method_count(); ++i) {
      methods_.push_back(std::make_unique<Rebuilt>(program_, i, records_.size() * 2 + kTraceLimit / 64));
    }
    EDGECORE_TRY(totals ? read_totals() : read_ring(capacity));
    std::vector<TracedMethod> traced;
    for (const auto &method : methods_) traced.push_back(method->traced());
    etdump = etdump_of(traced);
    return {};
  }

 private:
  Status refuse(const char *reason) {
    return fail(error_, EDGECORE_INVALID_ARGUMENT, "The records of the trace ", reason, ".");
  }

  // Converts ticks to nanoseconds, at most 2^62 (146 years), even if a damaged record has nonsensical ticks.
  uint64_t nanoseconds(double ticks) const {
    const double unit = static_cast<double>(kNanoseconds) / static_cast<double>(header_.ticks_per_second);
    return static_cast<uint64_t>(std::min(ticks * unit, 0x1p62));
  }

  template <typename Record>
  Record at(uint64_t index) const {
    Record record;
    std::memcpy(&record, records_.data() + sizeof(header_) + index * sizeof(Record), sizeof(Record));
    return record;
  }

  Rebuilt *method_of(const TraceKey &run) {
    for (const auto &method : methods_) {
      if (static_cast<uint16_t>(method->hash()) == run.instruction) return method.get();
    }
    return nullptr;
  }

  Status read_ring(uint64_t capacity) {
    const uint64_t count = std::min(header_.recorded, capacity);
    uint64_t dropped = header_.dropped;
    Rebuilt *method = nullptr;
    uint64_t run_begin = 0;
    for (uint64_t i = header_.recorded - count; i < header_.recorded; ++i) {
      const auto record = at<TraceRecord>(i % capacity);
      const bool is_run = record.key.kind == static_cast<uint16_t>(TraceKind::kExecute);
      if ((record.key.kind & 0xff) > static_cast<uint16_t>(TraceKind::kBackend)) {
        return refuse("have an event of unknown kind");
      }
      if (is_run) {
        method = method_of(record.key);
        if (method == nullptr) return refuse("belong to a program with other methods");
        run_begin = uint64_t{record.key.id} << 32 | record.begin;
      } else if (method == nullptr) {
        // Drop the event if it is an event of loading, which does not name its method, or of a run whose begin was
        // overwritten.
        ++dropped;
        continue;
      }
      const uint64_t begin = is_run ? run_begin : run_begin + record.begin;
      const uint64_t start = nanoseconds(static_cast<double>(begin));
      const uint64_t length = record.length == kTraceOpen ? 0 : record.length;
      method->add(record.key, start, start + nanoseconds(static_cast<double>(length)));
    }
    if (dropped > 0) (method != nullptr ? method : methods_.front().get())->drop(dropped);
    return {};
  }

  // Adds the totals of all runs, and then, in a second pass over the records, the totals of the events within runs.
  Status read_totals() {
    uint64_t dropped = header_.dropped;
    std::unordered_map<Rebuilt *, uint64_t> ends;
    for (const bool runs : {true, false}) {
      for (uint64_t i = 0; i < header_.recorded; ++i) {
        const auto total = at<TraceTotal>(i);
        const bool is_run = total.key.kind == static_cast<uint16_t>(TraceKind::kExecute);
        if ((total.key.kind & 0xff) > static_cast<uint16_t>(TraceKind::kBackend) || (total.count == 0 && !is_run)) {
          return refuse("have an event of unknown kind");
        }
        if (is_run != runs) continue;
        Rebuilt *method = method_of(total);
        if (method == nullptr && total.method != 0) return refuse("belong to a program with other methods");
        if (method == nullptr) {
          dropped += total.count;
        } else if (is_run) {
          add(*method, total, 0);
        } else {
          uint64_t &end = ends[method];
          end = add(*method, total, end);
        }
      }
    }
    if (dropped > 0) methods_.front()->drop(dropped);
    return {};
  }

  // Returns the method that a total (statistics of events) belongs to, or NULL. A total of loading does not name its
  // method, so its method is known only if the program has a single one.
  Rebuilt *method_of(const TraceTotal &total) {
    if (total.method == 0 && methods_.size() == 1) return methods_.front().get();
    for (const auto &method : methods_) {
      if (method->hash() == total.method) return method.get();
    }
    return nullptr;
  }

  // Adds a total as one event. The event begins at `begin` and lasts as long as the events of the total on average.
  // Returns the event's end.
  uint64_t add(Rebuilt &method, const TraceTotal &total, uint64_t begin) const {
    const double count = std::max(total.count, 1u);  // a run that has not ended has count 0: avoid dividing by 0
    const double mean = static_cast<double>(total.sum) / count;
    std::string metadata = "{\"count\": " + std::to_string(total.count) +
                           ", \"min\": " + std::to_string(nanoseconds(std::min(total.min, total.max))) +
                           ", \"max\": " + std::to_string(nanoseconds(total.max));
    if (total.squares != UINT64_MAX) {  // no standard deviation if the sum of squares overflowed (UINT64_MAX)
      const double variance = static_cast<double>(total.squares) / count - mean * mean;
      metadata += ", \"deviation\": " + std::to_string(nanoseconds(std::sqrt(std::max(0.0, variance))));
    }
    const uint64_t end = begin + nanoseconds(mean);
    method.add(total.key, begin, end, metadata + "}");
    return end;
  }

  const Program &program_;
  Bytes records_;
  Error &error_;
  TraceHeader header_ = {};
  std::vector<std::unique_ptr<Rebuilt>> methods_;
};

}  // namespace

Status etdump_of_records(const Program &program, Bytes records, std::vector<uint8_t> &etdump, Error &error) {
  return Reader(program, records, error).read(etdump);
}

}  // namespace edgecore
