#include "edgecore/llm/text_stream.h"

#include <algorithm>

#include "utf8.h"

namespace edgecore::llm {

std::string Utf8Stream::push(StringView bytes) {
  held_.append(bytes.data(), bytes.size());
  // Find an incomplete character: it begins at one of the last three bytes, because UTF-8 has at most four.
  size_t end = held_.size();
  for (size_t back = 1; back <= std::min<size_t>(3, held_.size()); ++back) {
    if (utf8_front({held_.data() + held_.size() - back, back}).is_cut) end = held_.size() - back;
  }
  std::string text;
  append_valid_utf8({held_.data(), end}, text);
  held_.erase(0, end);
  return text;
}

std::string Utf8Stream::finish() {
  const std::string text = held_.empty() ? "" : kReplacement;
  held_.clear();
  return text;
}

TextStream::TextStream(const Tokenizer &tokenizer, bool is_start, bool specials)
    : tokenizer_(tokenizer), strips_(is_start && tokenizer.strips_first_space()), specials_(specials) {}

std::string TextStream::push(int32_t token) {
  const bool is_special = tokenizer_.is_special(token);
  if (is_special && !specials_) return "";
  std::string found = tokenizer_.token_bytes(token);
  if (strips_ && !is_special && !found.empty() && found[0] == ' ') found.erase(0, 1);
  strips_ = false;
  return utf8_.push({found.data(), found.size()});
}

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  stops_.erase(std::remove(stops_.begin(), stops_.end(), ""), stops_.end());
}

std::string StopText::push(const std::string &text) {
  if (is_stopped_) return "";
  held_ += text;
  size_t found = std::string::npos, longest = 0;
  for (const std::string &stop : stops_) {
    found = std::min(found, held_.find(stop));
    longest = std::max(longest, stop.size() - 1);
  }
  if (found != std::string::npos) {
    is_stopped_ = true;
    return take(found);
  }
  for (size_t size = std::min(longest, held_.size()); size > 0; --size) {
    for (const std::string &stop : stops_) {
      if (stop.compare(0, size, held_, held_.size() - size, size) == 0) return take(held_.size() - size);
    }
  }
  return take(held_.size());
}

std::string StopText::finish() { return is_stopped_ ? "" : take(held_.size()); }

std::string StopText::take(size_t count) {
  std::string taken = held_.substr(0, count);
  held_.erase(0, count);
  return taken;
}

Status generate_text(Session &session, const Tokenizer &tokenizer, Span<const int32_t> prompt, GenerateOptions options,
                     const std::vector<std::string> &stops, const TextFunction &on_text, Error &error) {
  options.vocabulary = tokenizer.vocabulary();
  TextStream stream(tokenizer);
  StopText stop(stops);
  bool is_ended = false;
  const auto pass = [&](const std::string &text) { is_ended = is_ended || (!text.empty() && !on_text(text)); };
  EDGECORE_TRY(session.generate(
      prompt, options,
      [&](int32_t token) {
        pass(stop.push(stream.push(token)));
        return !is_ended && !stop.is_stopped();
      },
      error));
  std::string rest = stop.push(stream.finish());
  pass(rest + stop.finish());
  return {};
}

}  // namespace edgecore::llm
