#include "cost-model/words.h"

#include <algorithm>

namespace tpplan {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    text += text.empty() ? "" : separator;
    text += word;
  }
  return text;
}

}  // namespace tpplan
