#include "solver/solver_wheel.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace ebbtide::scheduler {
namespace {

namespace fs = std::filesystem;

bool there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The program or library that this code is part of: its folder as loaded, then without links.
std::vector<fs::path> ownFolders() {
  std::vector<fs::path> folders;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&findSolverProgram), &info) == 0) return folders;
  std::error_code error;
  const fs::path own = fs::absolute(info.dli_fname, error);
  if (!error && there(own)) folders.push_back(own.parent_path());
  const fs::path real = fs::canonical(own, error);
  if (!error) folders.push_back(real.parent_path());
  // dladdr() gives a program the name by which it was called.
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error && folders.empty()) folders.push_back(program.parent_path());
  return folders;
}

struct Search {
  std::vector<fs::path> others;  // folders with another version

  std::optional<SolverWheel> in(const fs::path& site_packages) {
    const fs::path libraries = site_packages / "ortools" / ".libs";
    const SolverWheel wheel{libraries / "libortools.so.9", libraries / "libhighs.so.1"};
    if (!there(site_packages / "ortools")) return std::nullopt;
    const fs::path metadata =
        site_packages / ("ortools-" + std::string(SolverWheel::kVersion) + ".dist-info");
    if (there(metadata) && there(wheel.cp_sat) && there(wheel.highs)) return wheel;
    others.push_back(site_packages);
    return std::nullopt;
  }

  std::optional<SolverWheel> inEnvironment(const fs::path& environment) {
    std::error_code error;
    fs::directory_iterator versions(environment / "lib", error);
    if (error) return std::nullopt;
    for (const fs::directory_entry& version : versions) {
      if (auto wheel = in(version.path() / "site-packages")) return wheel;
    }
    return std::nullopt;
  }

  std::optional<SolverWheel> above(fs::path folder) {
    for (;; folder = folder.parent_path()) {
      if (auto wheel = in(folder)) return wheel;
      if (auto wheel = inEnvironment(folder / ".venv")) return wheel;
      if (folder == folder.parent_path()) return std::nullopt;
    }
  }
};

std::string wantedWheel() {
  return std::string("ortools==") + SolverWheel::kVersion;
}

[[noreturn]] void throwMissing(const Search& search, const std::string& where) {
  std::string text = wantedWheel() + " is not " + where;
  if (!search.others.empty()) {
    text += " (another version is in " + search.others.front().string() + ")";
  }
  throw std::invalid_argument(solverFault(text));
}

}  // namespace

std::string solverFault(const std::string& what) {
  return "no solver: " + what + "; pip install " + wantedWheel() +
         ", or name the folder that holds it: --option ortools=FOLDER";
}

PlannerOption wheelOption() {
  return {"ortools", "a folder",
          "where " + wantedWheel() +
              " is installed (site-packages); default: near this program, in .venv, in "
              "VIRTUAL_ENV"};
}

SolverWheel findSolverWheel(const PlannerOptions& options) {
  Search search;
  if (const auto named = options.named.find("ortools"); named != options.named.end()) {
    if (auto wheel = search.in(named->second)) return *wheel;
    throwMissing(search, "in " + named->second);
  }
  for (const fs::path& folder : ownFolders()) {
    if (auto wheel = search.above(folder)) return *wheel;
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV")) {
    if (auto wheel = search.inEnvironment(environment)) return *wheel;
  }
  throwMissing(search, "near this program, in .venv or in VIRTUAL_ENV");
}

fs::path findSolverProgram() {
  const std::vector<fs::path> folders = ownFolders();
  for (const fs::path& folder : folders) {
    for (const fs::path& program :
         {folder / "ebbtide-solver", folder.parent_path() / "bin" / "ebbtide-solver"}) {
      if (there(program)) return program;
    }
  }
  throw std::runtime_error("the program ebbtide-solver is not beside " +
                           (folders.empty() ? "this one" : folders.back().string()));
}

}  // namespace ebbtide::scheduler
