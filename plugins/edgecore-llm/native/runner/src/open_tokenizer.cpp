#include <sys/stat.h>

#include "edgecore/llm/tokenizer.h"
#include "file.h"
#include "llama2c.h"

namespace edgecore::llm {
namespace {

constexpr const char *kNames[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin"};

bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool ends_with(const std::string &text, const char *end) {
  const std::string wanted(end);
  return text.size() >= wanted.size() && text.compare(text.size() - wanted.size(), wanted.size(), wanted) == 0;
}

}  // namespace

Status open_tokenizer(const char *path, std::unique_ptr<Tokenizer> &tokenizer, Error &error) {
  std::string file = path;
  if (is_folder(path)) {
    file.clear();
    for (const char *name : kNames) {
      const std::string candidate = std::string(path) + "/" + name;
      if (file.empty() && file_exists(candidate)) file = candidate;
    }
    if (file.empty()) {
      return fail(error, EDGECORE_NOT_FOUND, path, " has none of tokenizer.json, tokenizer.model, tokenizer.bin.");
    }
  }
  std::string content;
  EDGECORE_TRY(read_file(file, content, error));
  if (ends_with(file, ".bin")) {
    auto opened = std::make_unique<Llama2cTokenizer>();
    EDGECORE_TRY(opened->read(content, file, error));
    tokenizer = std::move(opened);
    return {};
  }
  return fail(error, EDGECORE_NOT_SUPPORTED, file.c_str(), " is no tokenizer of a known kind.");
}

}  // namespace edgecore::llm
