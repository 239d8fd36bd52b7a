#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

/// Text whose characters know where in a source they stood, through every expansion.
struct TracedText {
  std::string text;
  std::vector<std::size_t> at;  ///< one place per character

  void add(char c, std::size_t place);
  void add(const TracedText& other);
  [[nodiscard]] TracedText part(std::size_t begin, std::size_t end) const;
  [[nodiscard]] std::size_t place() const { return at.empty() ? 0 : at.front(); }
  [[nodiscard]] bool empty() const { return text.empty(); }
  static TracedText of(std::string_view text, std::size_t place);  ///< every character at one place
  static TracedText source(std::string_view text);                 ///< each character at its own
};

/// Variables of a shell: each a list of words, a plain one having one.
using ShellVariables = std::map<std::string, std::vector<TracedText>, std::less<>>;

/// What becomes of a variable that is not set: kept as written ("$RANK"), or nothing, as the shell has it.
enum class Unset : std::uint8_t { kept, empty };

/// The words that a word of a script stands for: quotes taken off, $NAME, ${NAME}, ${NAME[@]}, ${NAME:-default} and its
/// kin and $((arithmetic)) replaced and, outside quotes, split at blanks. What cannot be known without running the
/// script ($(command), variables that it does not set, pattern operators) is kept as written. ${NAME:=value} sets the
/// variable.
std::vector<TracedText> expand(const TracedText& raw, ShellVariables& variables, Unset unset = Unset::kept);

/// The same as one word, as in an assignment.
TracedText expand_whole(const TracedText& raw, ShellVariables& variables, Unset unset = Unset::kept);

/// Value of a shell arithmetic expression over whole numbers; nothing when it is none or a name in it is not set.
std::optional<std::int64_t> arithmetic(std::string_view text, const ShellVariables& variables);

/// The end (behind the closing sign) of what opens at `begin`: a quoted text, "$(...)", "${...}", "`...`"; npos when it
/// is not closed.
std::size_t end_of_group(std::string_view text, std::size_t begin);

}  // namespace tpplan
