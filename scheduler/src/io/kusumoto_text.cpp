#include "io/kusumoto_text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max() / 8;

[[noreturn]] void fail(std::size_t line, const std::string& what) {
  throw std::invalid_argument("line " + std::to_string(line) + ": " + what);
}

// The text line by line, and the words of the present line.
class Lines {
 public:
  explicit Lines(std::string_view text)
      : rest_(text),
        left_(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1) {}

  std::size_t number() const { return number_; }
  std::size_t left() const { return left_; }

  void next(const std::string& expected) {
    ++number_;
    if (rest_.empty()) fail(number_, "the file ends where " + expected + " should be");
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    if (end < rest_.size()) --left_;
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line_.ends_with('\r')) line_.remove_suffix(1);
  }

  std::string_view word(const std::string& expected) {
    line_.remove_prefix(std::min(line_.find_first_not_of(' '), line_.size()));
    const std::string_view word = line_.substr(0, line_.find(' '));
    line_.remove_prefix(word.size());
    if (word.empty()) fail(number_, expected + " is missing");
    return word;
  }

  std::int64_t integer(const std::string& expected) {
    const std::string_view text = word(expected);
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) {
      fail(number_, expected + " is not a number of at least 0");
    }
    return number;
  }

  // A number of things that follow. Each takes a line at least.
  std::size_t count(const std::string& expected) {
    const std::int64_t number = integer(expected);
    if (static_cast<std::uint64_t>(number) > left()) {
      fail(number_, expected + " is more than the file has lines");
    }
    return static_cast<std::size_t>(number);
  }

  std::string_view line() const { return line_; }
  void endLine() const {
    if (line_.find_first_not_of(' ') != std::string_view::npos) {
      fail(number_, "there is more on the line than expected");
    }
  }
  void endFile() {
    while (!rest_.empty()) {
      next("");
      endLine();
    }
  }

 private:
  std::string_view rest_, line_;
  std::size_t left_;  // lines of rest_, an empty last one too
  std::size_t number_ = 0;
};

std::vector<std::int64_t> parseVariables(Lines& lines, std::size_t variables) {
  std::vector<std::int64_t> bytes(variables, -1);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < variables; ++i) {
    lines.next("a variable");
    const auto id = static_cast<std::size_t>(lines.integer("the variable's id"));
    if (id >= variables) fail(lines.number(), "the variable's id is not below their number");
    if (bytes[id] >= 0) fail(lines.number(), "variable " + std::to_string(id) + " comes twice");
    bytes[id] = lines.integer("the variable's size");
    if (bytes[id] > kMostBytes - sum) fail(lines.number(), "the sizes' sum does not fit 60 bits");
    sum += bytes[id];
    lines.word("the variable's name");
  }
  return bytes;
}

std::int64_t parseRank(const Lines& lines) {
  const std::string_view key = "\"rank\":";
  const std::size_t at = lines.line().find(key);
  std::int64_t rank = 0;
  if (lines.line().starts_with('{') && at != std::string_view::npos) {
    std::string_view text = lines.line().substr(at + key.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc()) return rank;
  }
  fail(lines.number(), "no \"rank\" in the function's JSON");
}

class FunctionParser {
 public:
  FunctionParser(Lines& lines, std::size_t variables) : lines_(lines), variables_(variables) {}

  KusumotoFunction parse() {
    KusumotoFunction function;
    lines_.next("a function");
    function.line = lines_.number();
    const std::string_view direction = lines_.word("'forward' or 'backward'");
    function.backward = direction == "backward";
    if (!function.backward && direction != "forward") {
      fail(lines_.number(), "neither 'forward' nor 'backward'");
    }
    lines_.endLine();
    lines_.next("the numbers of inputs and outputs");
    const std::size_t inputs = lines_.count("the number of inputs");
    const std::size_t outputs = lines_.count("the number of outputs");
    lines_.endLine();
    for (std::size_t i = 0; i < inputs; ++i) {
      lines_.next("an input");
      const std::size_t variable = parseId();
      function.inputs.push_back({variable, lines_.word("the input's tag") == "gradient"});
      lines_.endLine();
    }
    for (std::size_t i = 0; i < outputs; ++i) addOutput(function);
    lines_.next("the function's type");
    function.type = lines_.line();
    lines_.next("the function's JSON");
    function.rank = parseRank(lines_);
    return function;
  }

 private:
  std::size_t parseId() {
    const auto id = static_cast<std::size_t>(lines_.integer("a variable's id"));
    if (id >= variables_) fail(lines_.number(), "no variable " + std::to_string(id));
    return id;
  }

  void addOutput(KusumotoFunction& function) {
    lines_.next("an output");
    const std::size_t id = parseId();
    lines_.endLine();
    if (std::count(function.outputs.begin(), function.outputs.end(), id) > 0) {
      fail(lines_.number(), "the function's output " + std::to_string(id) + " comes twice");
    }
    function.outputs.push_back(id);
  }

  Lines& lines_;
  std::size_t variables_;
};

void checkForward(const KusumotoFile& file) {
  std::vector<bool> made(file.bytes.size(), false), read_as_source(file.bytes.size(), false);
  for (const KusumotoFunction& function : file.functions) {
    if (function.backward) break;
    for (const auto& input : function.inputs) {
      if (input.gradient) fail(function.line, "a forward function reads a gradient");
      if (!made[input.variable]) read_as_source[input.variable] = true;
    }
    for (std::size_t output : function.outputs) {
      const std::string name = "variable " + std::to_string(output);
      if (made[output]) fail(function.line, name + " is made a second time");
      if (read_as_source[output]) {
        fail(function.line, name + " is read by a function that its rank puts before this one");
      }
      made[output] = true;
    }
  }
}

}  // namespace

KusumotoFile parseKusumotoText(const std::string& text) {
  Lines lines(text);
  lines.next("the numbers of variables and functions");
  const std::size_t variables = lines.count("the number of variables");
  const std::size_t functions = lines.count("the number of functions");
  lines.endLine();
  KusumotoFile file;
  file.bytes = parseVariables(lines, variables);
  FunctionParser parser(lines, variables);
  for (std::size_t i = 0; i < functions; ++i) file.functions.push_back(parser.parse());
  lines.endFile();
  std::stable_sort(file.functions.begin(), file.functions.end(), [](const auto& a, const auto& b) {
    if (a.backward != b.backward) return b.backward;
    return a.backward ? a.rank > b.rank : a.rank < b.rank;
  });
  checkForward(file);
  return file;
}

}  // namespace ebbtide::scheduler
