// Reads complete files.
#ifndef EDGECORE_LLM_FILE_H_
#define EDGECORE_LLM_FILE_H_

#include <string>

#include "edgecore/status.h"

namespace edgecore::llm {

bool file_exists(const std::string &path);

// Sets `content` to the bytes of a file of at most 1 GB. Errors: NOT_FOUND, ACCESS_FAILED, INVALID_EXTERNAL_DATA (too
// large).
Status read_file(const std::string &path, std::string &content, Error &error);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_FILE_H_
