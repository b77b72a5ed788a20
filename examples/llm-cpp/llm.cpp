// llm FILE TOKENIZER PROMPT: continues the prompt by at most 64 tokens, and prints each token as soon as it is known.
#include <cstdio>
#include <future>

#include "edgecore/llm/session.h"
#include "edgecore/llm/text_stream.h"

namespace {

using edgecore::Error;
using edgecore::Status;
namespace llm = edgecore::llm;

Status answer(const char *file, const char *tokenizer_path, const char *prompt, Error &error) {
  // Another thread reads the tokenizer, while this thread loads the model and brings its weights into memory (warm_up).
  std::unique_ptr<llm::Tokenizer> tokenizer;
  Error tokenizer_error;
  std::future<Status> reading =
      std::async(std::launch::async, [&] { return llm::open_tokenizer(tokenizer_path, tokenizer, tokenizer_error); });
  llm::Model model;
  EDGECORE_TRY(model.open(file, llm::ModelOptions(), error));
  llm::Session session;
  EDGECORE_TRY(model.new_session(session, error));
  EDGECORE_TRY(session.warm_up(error));
  if (const Status read = reading.get(); !read.ok()) {
    error = tokenizer_error;
    return read;
  }
  EDGECORE_TRY(model.check_fit(*tokenizer, error));

  std::vector<int32_t> tokens;
  llm::EncodeOptions encode;
  encode.bos = true;
  EDGECORE_TRY(tokenizer->encode(prompt, encode, tokens, error));
  llm::GenerateOptions options;
  options.max_new_tokens = 64;
  const auto print = [](const std::string &text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0;  // false ends the answer
  };
  EDGECORE_TRY(llm::generate_text(session, *tokenizer, {tokens.data(), tokens.size()}, options, {}, print, error));
  std::printf("\n");
  std::fprintf(stderr, "%s\n", session.statistics().line().c_str());
  return {};
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: llm FILE TOKENIZER PROMPT\n");
    return 2;
  }
  Error error;
  if (answer(argv[1], argv[2], argv[3], error).ok()) return 0;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(error.size), error.text);
  return 1;
}
