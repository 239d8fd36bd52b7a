#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

/// Writes JSON in the order of the calls. Numbers have the shortest form of at most 9 significant digits and are never
/// NaN or infinite. Two blanks of indentation per level, or everything on one line.
class JsonWriter {
 public:
  enum class Form { indented, one_line };
  explicit JsonWriter(Form form = Form::indented) : form_(form) {}

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(bool flag);
  JsonWriter& null();
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }
  /// Values up to the matching end stay on one line.
  JsonWriter& begin_line_array();
  JsonWriter& begin_line_object();

  /// The text so far, with a line feed at its end.
  [[nodiscard]] std::string text() const { return text_ + "\n"; }

 private:
  struct Level {
    bool one_line;
    bool empty;
  };
  void before_value();
  void open(char bracket, bool one_line);
  void close(char bracket);
  void new_line();

  Form form_;
  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

/// A text in JSON quotes, escaped.
std::string json_quoted(std::string_view text);

}  // namespace tpplan
