#include <sys/stat.h>

#include "edgecore/llm/tokenizer.h"
#include "file.h"
#include "hugging_face.h"
#include "llama2c.h"
#include "tiktoken.h"

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

template <typename Kind>
Status open(const std::string &content, const std::string &path, std::unique_ptr<Tokenizer> &tokenizer, Error &error) {
  auto opened = std::make_unique<Kind>();
  EDGECORE_TRY(opened->read(content, path, error));
  tokenizer = std::move(opened);
  return {};
}

// Opens a tokenizer.json, and reads tokenizer_config.json and generation_config.json beside it.
Status open_hugging_face(const std::string &content, const std::string &path, std::unique_ptr<Tokenizer> &tokenizer,
                         Error &error) {
  auto opened = std::make_unique<HuggingFaceTokenizer>();
  EDGECORE_TRY(opened->read(content, path, error));
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  std::string settings[2];
  const char *names[] = {"/tokenizer_config.json", "/generation_config.json"};
  for (size_t i = 0; i < 2; ++i) {
    if (file_exists(folder + names[i])) EDGECORE_TRY(read_file(folder + names[i], settings[i], error));
  }
  EDGECORE_TRY(opened->read_settings(settings[0], settings[1], folder, error));
  tokenizer = std::move(opened);
  return {};
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
  if (ends_with(file, ".json")) return open_hugging_face(content, file, tokenizer, error);
  if (ends_with(file, ".bin")) return open<Llama2cTokenizer>(content, file, tokenizer, error);
  if (has_ranks(content)) return open<TiktokenTokenizer>(content, file, tokenizer, error);
  return fail(
      error, EDGECORE_NOT_SUPPORTED, file.c_str(),
      " has no ranks of tiktoken; convert a model of SentencePiece: edgecore llm tokenizer tokenizer.model -o FOLDER.");
}

}  // namespace edgecore::llm
