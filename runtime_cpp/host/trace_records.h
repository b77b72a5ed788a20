// Converts the memory of a TraceBuffer or TraceStatistics (edgecore/trace_buffer.h), which comes from another device,
// to a profile.
#ifndef EDGECORE_HOST_TRACE_RECORDS_H_
#define EDGECORE_HOST_TRACE_RECORDS_H_

#include <vector>

#include "edgecore/program.h"

namespace edgecore {

// Converts trace records of runs of `program` to the bytes of an ETDump file, with the names in the program. Records
// are of single runs, or totals: statistics of each event over many runs. Totals become a single run, in which each
// event takes its mean time; the count, minimum, maximum and standard deviation (in nanoseconds) become metadata.
// Errors: INVALID_ARGUMENT (not records, or records of another program).
Status etdump_of_records(const Program &program, Bytes records, std::vector<uint8_t> &etdump, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_TRACE_RECORDS_H_
