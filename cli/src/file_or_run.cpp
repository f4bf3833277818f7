#include "file_or_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace ebbtide::cli {
namespace {

bool isAmong(const std::vector<std::string>& names, const CLI::Option& option) {
  return std::find(names.begin(), names.end(), option.get_name()) != names.end();
}

// "" but for a file that is not there and is called like a rank.
std::string rankHint(const std::string& path) {
  const bool is_number = !path.empty() && path.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || ::access(path.c_str(), F_OK) == 0) return "";
  return "; for the rank " + path + " of a running job: --rank " + path;
}

}  // namespace

void FileOrRun::addTo(CLI::App& verb, CLI::Option& file, const std::vector<std::string>& of_both) {
  file.required(false);
  const std::vector<CLI::Option*> of_file = verb.get_options();
  for (CLI::Option* option : of_file) {
    if (option == &file || option == verb.get_help_ptr() || isAmong(of_both, *option)) continue;
    option->needs(&file)->group(kOfFile);
  }
  job.addTo(verb);
  for (CLI::Option* option : verb.get_options()) {
    const bool is_new = std::find(of_file.begin(), of_file.end(), option) == of_file.end();
    if (is_new) option->excludes(&file)->group(kOfRun);
  }
}

scheduler::Graph readGraphOrHint(const GraphInput& graph) try {
  return graph.read();
} catch (const std::invalid_argument& error) {
  throw std::invalid_argument(error.what() + rankHint(graph.path));
}

}  // namespace ebbtide::cli
