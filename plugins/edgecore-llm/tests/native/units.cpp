// units: parts of the runner that the tests compare with Python's. Numbers have this machine's byte order.
//
//   units encode TOKENIZER BOS SPECIALS < TEXTS   texts as (size, bytes); writes (count, tokens, size, the decoded
//   text) units sample < CASES    (count, seed, position, history count, top k, window, vocabulary as int64, six
//   doubles, logits
//                           as floats, history as int32); writes a token as int32
//   units facts TOKENIZER   prints vocabulary, bos, adds_bos, strips_first_space, eos, and each token with its bytes
#include <cstdio>
#include <cstring>

#include "edgecore/llm/sampler.h"
#include "edgecore/llm/text_stream.h"

namespace {

using namespace edgecore;

template <typename T>
bool read(T *values, size_t count) {
  return std::fread(values, sizeof(T), count, stdin) == count;
}

template <typename T>
void write(const T *values, size_t count) {
  std::fwrite(values, sizeof(T), count, stdout);
}

Status encode(const llm::Tokenizer &tokenizer, const llm::EncodeOptions &options, Error &error) {
  for (uint32_t size; read(&size, 1);) {
    std::string text(size, '\0');
    if (!read(text.data(), size)) break;
    std::vector<int32_t> tokens;
    EDGECORE_TRY(tokenizer.encode({text.data(), text.size()}, options, tokens, error));
    const auto count = static_cast<uint32_t>(tokens.size());
    write(&count, 1);
    write(tokens.data(), count);
    const std::string whole = tokenizer.decode({tokens.data(), tokens.size()}, options.specials);
    llm::TextStream stream(tokenizer, true, options.specials);
    std::string streamed;
    for (const int32_t token : tokens) streamed += stream.push(token);
    streamed += stream.finish();
    if (streamed != whole) {
      return fail(error, EDGECORE_INTERNAL, "the stream gave ", streamed.c_str(), " and not ", whole.c_str());
    }
    const auto bytes = static_cast<uint32_t>(whole.size());
    write(&bytes, 1);
    write(whole.data(), bytes);
  }
  return {};
}

Status sample(Error &error) {
  llm::Sampler sampler;
  int64_t numbers[7];
  double values[6];
  while (read(numbers, 7) && read(values, 6)) {
    llm::Sampling sampling;
    std::memcpy(&sampling.seed, &numbers[1], sizeof sampling.seed);
    sampling.top_k = numbers[4];
    sampling.penalty_window = numbers[5];
    sampling.temperature = values[0];
    sampling.top_p = values[1];
    sampling.min_p = values[2];
    sampling.repetition_penalty = values[3];
    sampling.presence_penalty = values[4];
    sampling.frequency_penalty = values[5];
    std::vector<float> logits(static_cast<size_t>(numbers[0]));
    std::vector<int32_t> history(static_cast<size_t>(numbers[3]));
    if (!read(logits.data(), logits.size()) || !read(history.data(), history.size())) break;
    EDGECORE_TRY(check(sampling, error));
    const Result<int32_t> token =
        sampler.sample({logits.data(), logits.size()}, sampling, static_cast<uint64_t>(numbers[2]),
                       {history.data(), history.size()}, static_cast<size_t>(numbers[6]), error);
    EDGECORE_TRY(token.status());
    const int32_t found = *token;
    write(&found, 1);
  }
  return {};
}

Status run(int argc, char **argv, Error &error) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "sample") return sample(error);
  std::unique_ptr<llm::Tokenizer> tokenizer;
  EDGECORE_TRY(llm::open_tokenizer(argv[2], tokenizer, error));
  if (command == "encode") {
    llm::EncodeOptions options;
    options.bos = argv[3][0] == '1';
    options.specials = argv[4][0] == '1';
    return encode(*tokenizer, options, error);
  }
  std::printf("%zu %d %d %d\n", tokenizer->vocabulary(), tokenizer->bos_id(), tokenizer->adds_bos(),
              tokenizer->strips_first_space());
  for (const int32_t token : tokenizer->eos_ids()) std::printf("%d ", token);
  std::printf("\n");
  for (int32_t token = -1; token <= static_cast<int32_t>(tokenizer->vocabulary()); ++token) {
    std::printf("%d %d ", token, tokenizer->is_special(token));
    for (const char byte : tokenizer->token_bytes(token)) std::printf("%02x", static_cast<unsigned char>(byte));
    std::printf("\n");
  }
  return {};
}

}  // namespace

int main(int argc, char **argv) {
  Error error;
  if (run(argc, argv, error).ok()) return 0;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(error.size), error.text);
  return 1;
}
