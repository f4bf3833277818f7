#include "ebbtide/metrics/machine_name.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

namespace ebbtide::metrics {

std::string machineName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Of several lines the last one counts; "." is no domain.
std::vector<std::string> searchDomains(const std::string& file) {
  std::vector<std::string> domains;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || (word != "search" && word != "domain")) continue;
    domains.clear();
    while (words >> word) {
      if (word.ends_with('.')) word.pop_back();
      if (!word.empty()) domains.push_back(word);
    }
  }
  return domains;
}

}  // namespace ebbtide::metrics
