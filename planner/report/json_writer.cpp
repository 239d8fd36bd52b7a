#include "planner/report/json_writer.h"

#include "cost-model/units.h"

namespace tpplan {

std::string json_quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (code < 0x20) {
      quoted += "\\u00";
      quoted += kHex[code / 16];
      quoted += kHex[code % 16];
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

void JsonWriter::new_line() {
  if (levels_.empty() || levels_.back().one_line) {
    return;
  }
  text_ += '\n';
  text_.append(2 * levels_.size(), ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) {
    return;
  }
  if (!levels_.back().empty) {
    text_ += levels_.back().one_line ? ", " : ",";
  }
  levels_.back().empty = false;
  new_line();
}

void JsonWriter::open(char bracket, bool one_line) {
  before_value();
  text_ += bracket;
  levels_.push_back({one_line || form_ == Form::one_line || (!levels_.empty() && levels_.back().one_line), true});
}

void JsonWriter::close(char bracket) {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty && !level.one_line) {
    text_ += '\n';
    text_.append(2 * levels_.size(), ' ');
  }
  text_ += bracket;
}

JsonWriter& JsonWriter::begin_object() {
  open('{', false);
  return *this;
}
JsonWriter& JsonWriter::begin_line_object() {
  open('{', true);
  return *this;
}
JsonWriter& JsonWriter::end_object() {
  close('}');
  return *this;
}
JsonWriter& JsonWriter::begin_array() {
  open('[', false);
  return *this;
}
JsonWriter& JsonWriter::begin_line_array() {
  open('[', true);
  return *this;
}
JsonWriter& JsonWriter::end_array() {
  close(']');
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  before_value();
  text_ += json_quoted(name) + ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  text_ += json_quoted(text);
  return *this;
}
JsonWriter& JsonWriter::value(double number) {
  before_value();
  text_ += shortest(number);
  return *this;
}
JsonWriter& JsonWriter::value(std::int64_t number) {
  before_value();
  text_ += std::to_string(number);
  return *this;
}
JsonWriter& JsonWriter::value(bool flag) {
  before_value();
  text_ += flag ? "true" : "false";
  return *this;
}
JsonWriter& JsonWriter::null() {
  before_value();
  text_ += "null";
  return *this;
}

}  // namespace tpplan
