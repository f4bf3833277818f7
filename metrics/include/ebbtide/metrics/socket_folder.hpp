// Where the ranks of a machine are found, by themselves and by those who ask them:
//
//   socketFolder() ─► a folder for each job ─► rank-R.sock
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ebbtide::metrics {

// An absolute path. `given`: EBBTIDE_SOCKET_DIR; where it is empty $XDG_RUNTIME_DIR/ebbtide, else
// /tmp/ebbtide-<uid>. A relative XDG_RUNTIME_DIR is ignored, as the XDG base directory
// specification has it.
std::string socketFolder(const std::string& given);

std::string socketOfRank(int rank);  // rank-7.sock
// 7 of rank-7.sock; nothing where it is no such name.
std::optional<int> rankOfSocket(std::string_view name);
// Digits alone; nothing where they are none, or too many for an int.
std::optional<int> rankNumber(std::string_view digits);

}  // namespace ebbtide::metrics
