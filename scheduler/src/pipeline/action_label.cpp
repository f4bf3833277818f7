#include "pipeline/action_label.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;
using Role = ActionLabel::Role;

struct Word {
  std::string_view text;
  Role role;
  Kind kind;
};

constexpr std::array<Word, 8> kWords = {{{"F", Role::kAction, Kind::kForward},
                                         {"B", Role::kAction, Kind::kBackward},
                                         {"I", Role::kAction, Kind::kInputBackward},
                                         {"W", Role::kAction, Kind::kWeightBackward},
                                         {"SEND_F", Role::kMessage, Kind::kForward},
                                         {"RECV_F", Role::kMessage, Kind::kForward},
                                         {"SEND_B", Role::kMessage, Kind::kBackward},
                                         {"RECV_B", Role::kMessage, Kind::kBackward}}};

bool takeWord(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<std::int32_t> takeNumber(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// The whole of "2F0" or "2RECV_F0".
std::optional<ActionLabel> torchAction(std::string_view text) {
  const auto stage = takeNumber(text);
  const std::string_view word = text.substr(0, text.find_first_of("0123456789"));
  text.remove_prefix(word.size());
  const auto microbatch = takeNumber(text);
  if (!stage || !microbatch || !text.empty()) return std::nullopt;
  for (const Word& known : kWords) {
    if (known.text == word) return ActionLabel{known.role, known.kind, *stage, *microbatch};
  }
  return std::nullopt;
}

// "1F3;0B2" of what runs interleaved.
std::vector<ActionLabel> torchActions(std::string_view list) {
  std::vector<ActionLabel> labels;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(';'));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    const auto label = torchAction(word);
    if (!label) return {};
    labels.push_back(*label);
  }
  return labels;
}

std::vector<ActionLabel> microbatchOnly(std::string_view text, Kind kind) {
  const auto microbatch = takeNumber(text);
  if (!microbatch || !text.empty()) return {};
  return {{Role::kAction, kind, kNone, *microbatch}};
}

std::vector<ActionLabel> hint(std::string_view text) {
  const auto stage = takeNumber(text);
  if (!stage || !takeWord(text, ":")) return {};
  const auto microbatch = takeNumber(text);
  if (!microbatch || !text.empty()) return {};
  return {{Role::kHint, Kind::kForward, *stage, *microbatch}};
}

}  // namespace

std::vector<ActionLabel> labelsOf(std::string_view scope) {
  if (takeWord(scope, "PP:(")) return torchActions(scope.substr(0, scope.find(')')));
  if (takeWord(scope, "PP:")) return torchActions(scope);
  if (takeWord(scope, "Forward ")) return microbatchOnly(scope, Kind::kForward);
  if (takeWord(scope, "Backward ")) return microbatchOnly(scope, Kind::kBackward);
  if (takeWord(scope, "ebbtide:")) return hint(scope);
  return {};
}

}  // namespace ebbtide::scheduler
