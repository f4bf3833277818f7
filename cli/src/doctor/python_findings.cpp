#include "doctor/python_findings.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "checked_json.hpp"
#include "doctor/child_output.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

using Verdict = Finding::Verdict;

constexpr std::chrono::seconds kLimit{300};  // torch from a cold disk, on a busy machine

// Prints what it finds as one line of JSON, last on stdout; others may print before.
constexpr const char* kProbe = R"PY(
import ctypes, importlib.util, json, os, sys
found = {"python": sys.version.split()[0], "executable": sys.executable}
def tried(name, action):
    try:
        found[name] = action()
    except BaseException as error:
        found[name + "_error"] = f"{type(error).__name__}: {error}"[:500]
def torch_facts():
    import torch
    return {"version": torch.__version__, "cuda": torch.version.cuda,
            "folder": os.path.dirname(torch.__file__)}
def gpu_facts():
    import torch
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
def plugin_facts():
    spec = importlib.util.find_spec("ebbtide")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = list(spec.submodule_search_locations)[0]
    from importlib.metadata import entry_points
    named = [point.name for point in entry_points(group="torch.backends")]
    library = ctypes.CDLL(os.path.join(folder, "libebbtide.so"))
    library.ebbtide_built_for.restype = ctypes.c_char_p
    library.ebbtide_version.restype = ctypes.c_char_p
    facts = {"folder": folder, "built_for": library.ebbtide_built_for().decode(),
             "version": library.ebbtide_version().decode(), "registered": "ebbtide" in named}
    import torch
    if facts["built_for"] == ".".join(torch.__version__.split(".")[:2]):
        ctypes.CDLL(os.path.join(folder, "libebbtide_torch.so"))
    return facts
def solver_folder():
    import sysconfig
    spec = importlib.util.find_spec("ortools")
    if spec is None or not spec.submodule_search_locations:
        return sysconfig.get_paths()["platlib"]
    return os.path.dirname(list(spec.submodule_search_locations)[0])
def driver_facts():
    driver = ctypes.CDLL("libcuda.so.1")
    code = driver.cuInit(0)
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    return {"code": code, "version": version.value, "gpus": count.value if code == 0 else 0}
tried("torch", torch_facts)
if "torch" in found:
    tried("plugin", plugin_facts)
    tried("gpus", gpu_facts)
tried("driver", driver_facts)
tried("site_packages", solver_folder)
print()
print(json.dumps(found))
)PY";

std::string asTold(const nlohmann::json& tree, std::initializer_list<const char*> keys) {
  return forTerminal(textAt(tree, keys));
}

// "2.11.0+cpu" -> "2.11"
std::string minorOf(const std::string& version) {
  const std::size_t dot = version.find('.');
  return dot == std::string::npos ? version : version.substr(0, version.find('.', dot + 1));
}

Finding torchFinding(const nlohmann::json& tree) {
  const std::string version = asTold(tree, {"torch", "version"});
  if (version.empty()) {
    return {.name = "torch",
            .verdict = Verdict::kProblem,
            .what = "not to be imported: " + asTold(tree, {"torch_error"}),
            .fix =
                "pip install torch==2.11.0 there, or name another Python: ebbtide doctor "
                "--python PATH"};
  }
  const std::string cuda = asTold(tree, {"torch", "cuda"});
  return {.name = "torch",
          .verdict = Verdict::kOk,
          .what = version + (cuda.empty() ? ", for CPUs" : ", for CUDA " + cuda),
          .fix = ""};
}

Finding pluginFinding(const nlohmann::json& tree) {
  Finding finding{.name = "plugin", .verdict = Verdict::kProblem, .what = "", .fix = ""};
  const std::string torch = asTold(tree, {"torch", "version"});
  const nlohmann::json& plugin = at(tree, {"plugin"});
  if (torch.empty()) {
    finding.what = "not looked for without torch";
  } else if (const std::string error = asTold(tree, {"plugin_error"}); !error.empty()) {
    finding.what = "does not load: " + error;
    finding.fix = "build it anew for this torch: ./dev build, or pip install .";
  } else if (!plugin.is_object()) {
    finding.what = "not installed beside this torch";
    finding.fix = "./dev build, or pip install . with this Python";
  } else if (asTold(plugin, {"built_for"}) != minorOf(torch)) {
    finding.what = "built for torch " + asTold(plugin, {"built_for"}) + ", but torch " + torch +
                   " is installed";
    finding.fix = "EBBTIDE_TORCH=" + minorOf(torch) + ".0 ./dev build, or pip install .";
  } else if (at(plugin, {"registered"}) != true) {
    finding.what = "there, but torch is not told to load it";
    finding.fix = "install it with pip: the entry point in torch.backends is missing";
  } else {
    finding.verdict = Verdict::kOk;
    finding.what = asTold(plugin, {"version"}) + " for torch " + asTold(plugin, {"built_for"}) +
                   ", loads, in " + asTold(plugin, {"folder"});
  }
  return finding;
}

std::string versionText(std::int64_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Finding driverFinding(const nlohmann::json& tree) {
  Finding finding{.name = "CUDA driver", .verdict = Verdict::kAbsent, .what = "", .fix = ""};
  const auto code = integerAt(tree, {"driver", "code"});
  const std::string cuda = asTold(tree, {"torch", "cuda"});
  if (!code) {
    finding.what = "none here: training is on the CPU";
    return finding;
  }
  const std::int64_t version = integerAt(tree, {"driver", "version"}).value_or(0);
  const std::int64_t gpus = integerAt(tree, {"driver", "gpus"}).value_or(0);
  if (*code != 0) {
    finding.verdict = Verdict::kProblem;
    finding.what = "installed, but does not start (error " + std::to_string(*code) + ")";
    finding.fix = "nvidia-smi says more; to train on the CPU: CUDA_VISIBLE_DEVICES= ";
  } else if (gpus > 0 && cuda.empty() && !textAt(tree, {"torch", "version"}).empty()) {
    finding.verdict = Verdict::kProblem;
    finding.what = std::to_string(gpus) + " GPU(s), but this torch is built for CPUs alone";
    finding.fix = "install a torch with CUDA";
  } else if (gpus > 0 && !cuda.empty() && at(tree, {"gpus"}).empty()) {
    finding.verdict = Verdict::kProblem;
    finding.what =
        "serves CUDA " + versionText(version) + ", but torch for CUDA " + cuda + " sees no GPU";
    finding.fix = "a newer driver, or a torch for an older CUDA";
  } else {
    finding.verdict = Verdict::kOk;
    finding.what = "CUDA " + versionText(version) + ", " + std::to_string(gpus) + " GPU(s)";
    const nlohmann::json& names = at(tree, {"gpus"});
    if (names.is_array() && !names.empty() && names.front().is_string()) {
      finding.what += ": " + forTerminal(names.front().get<std::string>());
    }
  }
  return finding;
}

Finding pythonProblem(const ChosenPython& python, const std::string& what) {
  return {.name = "Python",
          .verdict = Verdict::kProblem,
          .what = forTerminal(python.program) + ", " + python.why + ", " + what,
          .fix = "name the Python that trains: ebbtide doctor --python PATH"};
}

Finding pythonFinding(const ChosenPython& python, const nlohmann::json& tree) {
  return {
      .name = "Python",
      .verdict = Verdict::kOk,
      .what = asTold(tree, {"python"}) + " in " + asTold(tree, {"executable"}) + ", " + python.why,
      .fix = ""};
}

std::string pythonOf(const std::string& environment) {
  const std::string python = environment + "/bin/python";
  return ::access(python.c_str(), X_OK) == 0 ? python : "";
}

}  // namespace

std::string pythonAround(const std::filesystem::path& program) {
  const std::filesystem::path packages = program.parent_path().parent_path();
  if (packages.filename() != "site-packages") return "";
  return pythonOf(packages.parent_path().parent_path().parent_path().string());
}

ChosenPython choosePython(const std::string& named, const std::string& folder) {
  if (!named.empty()) return {named, "named by --python"};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (std::string python = pythonAround(program); !python.empty()) {
    return {std::move(python), "where this program is installed"};
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV")) {
    if (std::string python = pythonOf(environment); !python.empty()) {
      return {std::move(python), "of VIRTUAL_ENV"};
    }
  }
  if (std::string python = pythonOf(folder + "/.venv"); !python.empty()) {
    return {std::move(python), "of .venv here"};
  }
  return {"", "the first in PATH"};
}

PythonFacts factsFromProbe(const ChosenPython& python, const std::string& json_text) {
  // The last line: what others print comes before.
  std::string text = json_text;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  const auto tree = parseChecked(text);
  if (!tree || !tree->is_object()) {
    return {{pythonProblem(python, "does not say what it has")}, ""};
  }
  return {{pythonFinding(python, *tree), torchFinding(*tree), pluginFinding(*tree),
           driverFinding(*tree)},
          textAt(*tree, {"site_packages"})};
}

PythonFacts pythonFindings(const std::string& named) {
  ChosenPython python = choosePython(named, ".");
  ChildOutput output;
  if (!python.program.empty()) {
    output = outputOf({python.program, "-c", kProbe}, kLimit);
  } else {
    for (const char* name : {"python3", "python"}) {
      python.program = name;
      output = outputOf({name, "-c", kProbe}, kLimit);
      if (!output.problem.starts_with("cannot be started")) break;
    }
  }
  if (!output.problem.empty()) return {{pythonProblem(python, output.problem)}, ""};
  return factsFromProbe(python, output.text);
}

}  // namespace ebbtide::cli
